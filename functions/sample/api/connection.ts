/**
 * SQLSTATEs after which the same request may pass a little later. 25006: a fail-over, and this server takes no writes (yet). 28000: the
 * IAM token was refused, and the next connection brings a new one; a wrong password (28P01) does not pass.
 */
const PASSING = /^(?:08...|53...|57P0[1-5]|57014|55P03|40001|40P01|25P03|25006|28000)$/;
/** What the operating system and the driver say when there is no database at the other end. */
const SOCKET = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);
const DRIVER =
  /^(?:Connection terminated|Client has encountered a connection error|Client was closed|Query read timeout|timeout exceeded when trying to connect|timeout expired)/i;

/** Whether an error says that the database is away, overloaded, or gave up waiting: nobody's mistake, and it passes. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  // Node tries several addresses at once and reports all failures together.
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.every(isDatabaseAway);
  const { code } = error as { code?: unknown };
  if (typeof code === 'string' && (SOCKET.has(code) || PASSING.test(code))) return true;
  return DRIVER.test(error.message);
}
