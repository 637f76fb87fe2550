import type { Log } from '../../telemetry/index.ts';
import type { InstalledDestination } from './delivery.ts';

/** Outages that end only when a person acts. All others end by themselves. */
type Remediable = 'wrong name' | 'wrong kind' | 'no permission' | 'no permission on the key' | 'credential';

const CODES: ReadonlyMap<string, Remediable> = new Map([
  ['QueueDoesNotExist', 'wrong name'],
  ['AWS.SimpleQueueService.NonExistentQueue', 'wrong name'],
  ['ResourceNotFoundException', 'wrong name'],
  ['InvalidAddress', 'wrong name'],
  ['QueueKindMismatch', 'wrong kind'],
  ['AccessDenied', 'no permission'],
  ['AccessDeniedException', 'no permission'],
  ['NotAuthorized', 'no permission'],
  ['NotAuthorizedForSourceException', 'no permission'],
  ['NotAuthorizedForDetailTypeException', 'no permission'],
  ['KmsAccessDenied', 'no permission on the key'],
  ['KMS.AccessDeniedException', 'no permission on the key'],
  ['ExpiredToken', 'credential'],
  ['ExpiredTokenException', 'credential'],
  ['InvalidClientTokenId', 'credential'],
  ['UnrecognizedClientException', 'credential'],
  ['MissingAuthenticationToken', 'credential'],
  ['CredentialsProviderError', 'credential'],
]);

/** What the relay asks of a destination: a preflight looks at it, a send uses it. */
type Call = 'preflight' | 'send';

const ACTIONS: Readonly<Record<'sqs' | 'eventbridge', Readonly<Record<Call, string>>>> = {
  sqs: { preflight: 'sqs:GetQueueAttributes', send: 'sqs:SendMessage' },
  eventbridge: { preflight: 'events:DescribeEventBus', send: 'events:PutEvents' },
};

/** What a person has to do, in one line; undefined where the outage ends by itself. */
export function remedyOf(code: string, { name, kind }: InstalledDestination, call: Call): string | undefined {
  switch (CODES.get(code)) {
    case 'wrong name':
      return `check the ${kind === 'eventbridge' ? "bus's name" : "queue's URL"} of "${name}" in OUTBOX_DESTINATIONS: nothing has this address in this account and region; correct it, or deploy what is missing`;
    case 'wrong kind':
      return `check the queue's URL of "${name}" in OUTBOX_DESTINATIONS: the queue and the catalogue disagree on FIFO or standard; change one of them`;
    case 'no permission':
      return `allow the relay's role ${ACTIONS[kind === 'eventbridge' ? 'eventbridge' : 'sqs'][call]} on "${name}", and see that the policy of the ${kind === 'eventbridge' ? 'bus' : 'queue'} does not deny it`;
    case 'no permission on the key':
      return `allow the relay's role kms:GenerateDataKey and kms:Decrypt on the key that encrypts "${name}"`;
    case 'credential':
      return 'renew the credential of the relay: on Lambda the role brings a new one with each start, so see that the role still exists; elsewhere refresh the session or replace the key, and start the relay again';
    default:
      return undefined;
  }
}

/** One line for each opening of a destination's circuit: an error where a person has to act, a warning where not. */
export function reportOutage(
  log: Log,
  destination: InstalledDestination,
  call: Call,
  outage: { readonly code: string; readonly reason?: string; readonly retryInMs: number },
): void {
  const remedy = remedyOf(outage.code, destination, call);
  const fields = { destination: destination.name, ...outage, ...(remedy !== undefined && { remedy }) };
  if (remedy !== undefined) {
    log.error(
      'the destination cannot be used: nothing was marked or charged, its events wait until this is mended',
      fields,
    );
  } else if (call === 'preflight') {
    log.error('the destination cannot be used: nothing was sent and nothing marked, and it is asked again', fields);
  } else {
    log.warn('the destination is out of order; nothing is charged, sending resumes by itself', fields);
  }
}
