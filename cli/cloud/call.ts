/** Compiled, it is the package's command. */
const IS_PACKAGE = !import.meta.url.endsWith('.ts');

/** How a command is called: `npm run ops --` here, `npx sealed-outbox ops` where the library is a package. */
export function callOf(command: string): string {
  return IS_PACKAGE ? `npx sealed-outbox ${command}` : `npm run ${command} --`;
}

/** How an operator's command is called. */
export const CALL = callOf('ops');
