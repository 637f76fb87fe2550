/** A line that would tie the project to one machine or one registry. */
export interface Finding {
  readonly file: string;
  readonly line: number;
  readonly reason: string;
}

const FORBIDDEN: readonly { readonly pattern: RegExp; readonly reason: string }[] = [
  { pattern: /(^|[\s"'`=(:,])\/(home|Users|root|work|farm|private)\/[\w.-]/, reason: 'a path of one machine' },
  { pattern: /https?:\/\/[^/\s"']*(registry|pypi|artifactory|nexus|jfrog)/i, reason: 'the address of a registry' },
  { pattern: /^\s*(@[\w-]+:)?registry\s*=/, reason: 'the address of a registry' },
  { pattern: /--(extra-)?index-url/, reason: 'the address of a registry' },
  {
    pattern: /"resolved":\s*"https?:/,
    reason: 'a download address (set omit-lockfile-registry-resolved and run npm install)',
  },
  { pattern: /^(<{7}|>{7})( |$)/, reason: 'an unresolved merge' },
];

/** Where the clone was made and whence it was installed must not matter to anybody else. */
export function findingsIn(file: string, text: string): Finding[] {
  const findings: Finding[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    for (const { pattern, reason } of FORBIDDEN) {
      if (pattern.test(line)) findings.push({ file, line: index + 1, reason });
    }
  }
  return findings;
}
