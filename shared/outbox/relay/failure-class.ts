/**
 * What a refusal says about whom. By its code, never by whether it came for a call or for an entry: EventBridge reports
 * throttling per entry, SQS for the call.
 *
 * - `outage`: the destination, its key, the network or our rights. Costs no attempt; the whole destination waits.
 * - `hopeless`: this message, now and for ever. Parked at once.
 * - `unknown`: either. See `outcomeOf`.
 *
 * `docs/failures.md` lists each code with what it means; a test holds that table against these sets, both ways.
 */
export type FailureClass = 'outage' | 'hopeless' | 'unknown';

export const OUTAGE: ReadonlySet<string> = new Set([
  // throttling
  'RequestThrottled',
  'ThrottlingException',
  'Throttling',
  'ThrottledException',
  'TooManyRequestsException',
  'RequestLimitExceeded',
  'OverLimit',
  'SlowDown',
  // the service itself
  'InternalFailure',
  'InternalError',
  'InternalServerError',
  'InternalException',
  'ServiceUnavailable',
  'ServiceUnavailableException',
  'RequestTimeout',
  'RequestTimeoutException',
  'NoAnswer',
  // who we are and what we may
  'AccessDenied',
  'AccessDeniedException',
  'NotAuthorized',
  'NotAuthorizedForSourceException',
  'NotAuthorizedForDetailTypeException',
  'ExpiredToken',
  'ExpiredTokenException',
  'InvalidClientTokenId',
  'UnrecognizedClientException',
  'InvalidSignatureException',
  'SignatureDoesNotMatch',
  'IncompleteSignature',
  'MissingAuthenticationToken',
  'OptInRequired',
  'CredentialsProviderError',
  'InvalidSecurity',
  // where it should be
  'QueueDoesNotExist',
  'AWS.SimpleQueueService.NonExistentQueue',
  'QueueDeletedRecently',
  'ResourceNotFoundException',
  'InvalidAddress',
  'QueueKindMismatch',
  // network and our own time-out
  'TimeoutError',
  'AbortError',
  'NetworkingError',
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EPIPE',
  'ETIMEDOUT',
  'ERR_SSL_WRONG_VERSION_NUMBER',
]);

/** SQS passes the errors of its encryption key on as Kms… and KMS.…: KmsThrottled, KmsDisabled, KMS.AccessDeniedException. */
const KMS = /^KMS\.?[A-Z]/i;
/** Given by our publishers where an HTTP status of 429 or 5xx came without a code. */
const HTTP = /^Http(429|5\d\d)$/;

export const HOPELESS: ReadonlySet<string> = new Set([
  'InvalidMessageContents',
  'MessageTooLong',
  'EventTooLarge',
  'InvalidParameterValue',
  'InvalidAttributeValue',
  'MalformedDetail',
  'DetailTypeTooLong',
  // the catalogue has the destination no more, and no publisher is left for it
  'Unroutable',
]);

export function failureClass(code: string): FailureClass {
  if (HOPELESS.has(code)) return 'hopeless';
  if (OUTAGE.has(code) || KMS.test(code) || HTTP.test(code)) return 'outage';
  return 'unknown';
}
