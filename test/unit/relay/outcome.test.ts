import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { failureClass } from '../../../shared/outbox/relay/failure-class.ts';
import { outcomeOf, RETRY_POLICY } from '../../../shared/outbox/relay/outcome.ts';

const OUTAGES = [
  ['throttling', ['RequestThrottled', 'ThrottlingException', 'OverLimit', 'TooManyRequestsException']],
  ['the service', ['InternalFailure', 'InternalError', 'ServiceUnavailable', 'RequestTimeout', 'NoAnswer']],
  [
    'our rights',
    ['AccessDenied', 'AccessDeniedException', 'ExpiredToken', 'InvalidClientTokenId', 'CredentialsProviderError'],
  ],
  ['the queue', ['QueueDoesNotExist', 'AWS.SimpleQueueService.NonExistentQueue', 'QueueKindMismatch']],
  ['the key', ['KmsThrottled', 'KmsDisabled', 'KmsAccessDenied', 'KMS.AccessDeniedException', 'KMS.DisabledException']],
  ['the network', ['TimeoutError', 'AbortError', 'ECONNREFUSED', 'ECONNRESET', 'ENOTFOUND', 'ETIMEDOUT', 'EPIPE']],
  ['an HTTP status', ['Http429', 'Http500', 'Http502', 'Http503', 'Http504']],
].flatMap(([about, codes]) => (codes as string[]).map((code) => [about as string, code] as const));

const HOPELESS = ['InvalidMessageContents', 'MessageTooLong', 'EventTooLarge', 'InvalidParameterValue'];
const UNKNOWN = ['SomethingNew', 'Http413', 'Http400', 'Kmart', 'BatchRequestTooLong', ''];

const refused = (code: string, attempts: number, anotherPassedLately: boolean, value = 0.5) =>
  outcomeOf(
    { ok: false, code, reason: 'no' },
    { attempts },
    { anotherPassedLately, policy: RETRY_POLICY, random: () => value },
  );

describe('what becomes of a message', () => {
  it('is published when the destination took it', () => {
    const result = { ok: true, messageId: 'm-1' } as const;
    const outcome = outcomeOf(
      result,
      { attempts: 11 },
      { anotherPassedLately: false, policy: RETRY_POLICY, random: () => 0 },
    );
    expect(outcome).toEqual({ kind: 'published', messageId: 'm-1' });
  });

  it.each(OUTAGES)('case 53: is not charged for %s: %s', (_about, code) => {
    expect(failureClass(code)).toBe('outage');
    for (const anotherPassed of [true, false]) {
      // However often it was tried before: an outage parks nothing.
      expect(refused(code, 100, anotherPassed)).toEqual({ kind: 'outage', code });
    }
  });

  it.each(HOPELESS)('is parked at once when it can never pass: %s', (code) => {
    expect(failureClass(code)).toBe('hopeless');
    for (const anotherPassed of [true, false]) {
      expect(refused(code, 0, anotherPassed)).toEqual({ kind: 'parked', error: `${code}: no` });
    }
  });

  it.each(UNKNOWN)('is charged for an unknown code only when another one passed lately: %j', (code) => {
    expect(failureClass(code)).toBe('unknown');
    expect(refused(code, 0, false)).toEqual({ kind: 'outage', code });
    expect(refused(code, 0, true)).toEqual({ kind: 'retry', delayMs: 500, error: `${code}: no` });
  });

  it('gets twelve tries, each after a longer wait, and is parked at the twelfth', () => {
    const outcomes = Array.from({ length: 13 }, (_, attempts) => refused('SomethingNew', attempts, true, 1));
    expect(outcomes.map((outcome) => (outcome.kind === 'retry' ? outcome.delayMs : outcome.kind))).toEqual([
      1_000,
      2_000,
      4_000,
      8_000,
      16_000,
      32_000,
      64_000,
      128_000,
      256_000,
      300_000,
      300_000,
      'parked',
      'parked',
    ]);
  });

  it('keeps 500 characters of the reason at most', () => {
    const result = { ok: false, code: 'InvalidMessageContents', reason: 'x'.repeat(10_000) } as const;
    const outcome = outcomeOf(
      result,
      { attempts: 0 },
      { anotherPassedLately: true, policy: RETRY_POLICY, random: () => 0 },
    );
    expect(outcome).toMatchObject({ kind: 'parked', error: expect.stringMatching(/^InvalidMessageContents: x{476}$/) });
  });

  it('never parks what nobody listed while nothing passes, whatever its code and however often it was tried', () => {
    fc.assert(
      fc.property(fc.string(), fc.nat(), (code, attempts) => {
        fc.pre(failureClass(code) !== 'hopeless');
        expect(refused(code, attempts, false).kind).toBe('outage');
      }),
    );
  });
});
