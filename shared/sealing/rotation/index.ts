export { moveBranchKey, rotateBranchKey, type RotationPorts } from './branch.ts';
export type { CanaryPorts } from './canary.ts';
export type { PaceOptions, RotationClock } from './pace.ts';
export { postgresRotation, type RotationConnection } from './postgres-rotation.ts';
export { renewSubjectKey } from './renew-subject.ts';
export { type ListedKey, listKeys, requestRotation, type RotationRequests, takeRotationRequests } from './requests.ts';
export type { BranchState, CanaryRow, KeyTable, RotationVault, SubjectPage, WrappedSubject } from './rotation-vault.ts';
export { type RotationOptions, type RotationReport, runRotation } from './run-rotation.ts';
