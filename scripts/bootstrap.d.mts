export function installReason(root: string): string | null;
export function installFailure(output: string): string;
