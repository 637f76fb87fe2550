import { failureClass } from '../relay/failure-class.ts';
import { PublishError } from './publish-error.ts';

/**
 * One call of the AWS SDK, ended after `timeoutMs`. Rejects with a PublishError whose code is what the service or the network
 * called it; `TimeoutError` where nobody answered in time.
 */
export async function awsCall<T>(timeoutMs: number, call: (abortSignal: AbortSignal) => Promise<T>): Promise<T> {
  const abortSignal = AbortSignal.timeout(timeoutMs);
  try {
    return await call(abortSignal);
  } catch (error) {
    // The SDK calls every abort AbortError.
    if (abortSignal.aborted) {
      throw new PublishError('TimeoutError', `no answer within ${timeoutMs} ms`, { cause: error });
    }
    throw asPublishError(error);
  }
}

/** What the SDK calls an error whose answer it could not read; it says nothing of what happened. */
const NAMELESS = new Set([
  'Unknown',
  'UnknownError',
  'Error',
  'SyntaxError',
  'TypeError',
  'SQSServiceException',
  'EventBridgeServiceException',
]);

/**
 * The SDK names service errors in `name`, network errors in `code`. An answer of 429 or 5xx with a name that nobody knows,
 * such as the HTML page of a proxy, is called by its status: then it counts as an outage, and no message is charged for it.
 */
function asPublishError(error: unknown): PublishError {
  if (error instanceof PublishError) return error;
  const { name, code, message, $metadata } = error as {
    name?: string;
    code?: unknown;
    message?: string;
    $metadata?: { httpStatusCode?: number };
  };
  // A DOMException's code is a number and says less than its name.
  const called = typeof code === 'string' ? code : (name ?? 'Unknown');
  const status = $metadata?.httpStatusCode;
  const byStatus = `Http${status}`;
  const nameless = NAMELESS.has(called) || /^\d*$/.test(called);
  if (
    status !== undefined &&
    (nameless || (failureClass(called) === 'unknown' && failureClass(byStatus) === 'outage'))
  ) {
    return new PublishError(byStatus, nameless ? `HTTP ${status} without an error code` : called, { cause: error });
  }
  return new PublishError(called, message ?? 'the call failed', { cause: error });
}
