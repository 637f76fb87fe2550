export function installReason(root: string): string | null;
export function installFailure(output: string): string;
export const GENERATED_FROM: readonly string[];
