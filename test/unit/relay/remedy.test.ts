import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { failureClass, HOPELESS, OUTAGE } from '../../../shared/outbox/relay/failure-class.ts';
import { remedyOf, reportOutage } from '../../../shared/outbox/relay/remedy.ts';
import { LEDGER } from '../../support/delivery.ts';
import { recordingLog } from '../../support/recorders.ts';

const BUS = { ...LEDGER, name: 'analytics', kind: 'eventbridge', ordered: false };

/** Outages that a person has to end. */
const BY_HAND = [
  'QueueDoesNotExist',
  'AWS.SimpleQueueService.NonExistentQueue',
  'ResourceNotFoundException',
  'InvalidAddress',
  'QueueKindMismatch',
  'AccessDenied',
  'AccessDeniedException',
  'NotAuthorized',
  'NotAuthorizedForSourceException',
  'NotAuthorizedForDetailTypeException',
  'KmsAccessDenied',
  'KMS.AccessDeniedException',
  'ExpiredToken',
  'ExpiredTokenException',
  'InvalidClientTokenId',
  'UnrecognizedClientException',
  'MissingAuthenticationToken',
  'CredentialsProviderError',
];

describe('the remedy of an outage', () => {
  it.each(BY_HAND)('%s has one, in one line that names the destination or the credential', (code) => {
    expect(failureClass(code)).toBe('outage');
    for (const call of ['preflight', 'send'] as const) {
      for (const destination of [LEDGER, BUS]) {
        const remedy = remedyOf(code, destination, call);
        expect(remedy).toMatch(new RegExp(`"${destination.name}"|credential`));
        expect(remedy).not.toContain('\n');
      }
    }
  });

  it('is there for no code of which nobody knows that a person has to act', () => {
    const others = [...OUTAGE, ...HOPELESS, 'KmsThrottled', 'Http503', 'SomethingNew'].filter(
      (code) => !BY_HAND.includes(code),
    );
    for (const code of others) expect(remedyOf(code, LEDGER, 'send')).toBeUndefined();
  });

  it.each([
    [LEDGER, 'preflight', 'sqs:GetQueueAttributes'],
    [LEDGER, 'send', 'sqs:SendMessage'],
    [BUS, 'preflight', 'events:DescribeEventBus'],
    [BUS, 'send', 'events:PutEvents'],
  ] as const)('names the right that is lacking: $0.name, %s, %s', (destination, call, action) => {
    expect(remedyOf('AccessDenied', destination, call)).toContain(action);
    expect(readFileSync('docs/failures.md', 'utf8')).toContain(`\`${action}\``);
  });

  it.each([
    ['ExpiredToken', 'send', 'error'],
    ['ECONNREFUSED', 'preflight', 'error'],
    ['ECONNREFUSED', 'send', 'warn'],
  ] as const)('%s at a %s is one line of level %s', (code, call, level) => {
    const log = recordingLog();
    reportOutage(log, LEDGER, call, { code, retryInMs: 250 });
    expect(log.lines).toMatchObject([{ level, fields: { destination: 'ledger', code, retryInMs: 250 } }]);
  });
});
