import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TransactionAbortedError } from '../../../shared/database/index.ts';
import { HandlerFailedError, OutOfTimeError, TransactionEndedError } from '../../../shared/inbox/errors.ts';
import { classifyFailure, isServerAnswer, stackFrames } from '../../../shared/inbox/failure.ts';
import { KeysNotPreparedError, SealingError } from '../../../shared/sealing/index.ts';

const coded = (code: string, message = 'told by a customer'): Error => Object.assign(new Error(message), { code });
const byHandler = (cause: unknown, connectionLost = false) =>
  classifyFailure(new HandlerFailedError(cause, connectionLost));

describe('classifyFailure', () => {
  it.each(['40001', '40P01', '55P03', '57014', '57P01', '25006', '08006', '53300', 'ECONNRESET', 'EPIPE'])(
    'takes %s for a failure of the database, also when the handler passes it on or wraps it',
    (code) => {
      const retry = { class: 'retry', code };
      expect(classifyFailure(coded(code))).toEqual(retry);
      expect(byHandler(coded(code))).toEqual(retry);
      expect(byHandler(new Error('failed query', { cause: new Error('once more', { cause: coded(code) }) }))).toEqual(
        retry,
      );
    },
  );

  it.each(['23505', '22001', '42P01', 'SOME_CODE'])('takes %s of a handler for a bug of the handler', (code) => {
    expect(byHandler(coded(code))).toMatchObject({ class: 'handler', code });
  });

  it('takes a lost connection for a failure of the database although the driver gives it no code', () => {
    expect(byHandler(new Error('Connection terminated unexpectedly'), true)).toEqual({
      class: 'retry',
      code: 'CONNECTION_LOST',
    });
    expect(classifyFailure(new Error('timeout exceeded when trying to connect'))).toEqual({
      class: 'retry',
      code: 'DATABASE_UNREACHABLE',
    });
  });

  it('takes errors of its own statements never for the fault of the event, unless a value cannot be stored', () => {
    expect(classifyFailure(coded('42P01'))).toEqual({ class: 'retry', code: '42P01' });
    expect(classifyFailure(coded('22008'))).toEqual({ class: 'malformed', code: '22008' });
  });

  it('tells time, swallowed errors and a transaction that the handler ended apart', () => {
    expect(classifyFailure(new OutOfTimeError())).toEqual({ class: 'time', code: 'OUT_OF_TIME' });
    expect(classifyFailure(new TransactionAbortedError())).toEqual({ class: 'handler', code: 'TRANSACTION_ABORTED' });
    expect(classifyFailure(new TransactionEndedError())).toEqual({ class: 'handler', code: 'TRANSACTION_ENDED' });
  });

  it.each([
    ['SEALING_THROTTLED', 'retry'],
    ['SEALING_UNAVAILABLE', 'retry'],
    ['SEALING_KEY_DISABLED', 'retry'],
    ['SEALING_DENIED', 'denied'],
    ['SEALING_KEY_UNKNOWN', 'malformed'],
    ['SEALING_TAMPERED', 'malformed'],
    ['SEALING_MALFORMED', 'malformed'],
    ['SEALING_LIMIT', 'malformed'],
  ] as const)('sorts what keeps an event sealed: %s is %s', (code, failureClass) => {
    expect(classifyFailure(new SealingError(code, 'told by a customer', '/name'))).toEqual({
      class: failureClass,
      code,
      reason: 'data/name does not open',
    });
    // Of a handler that loads keys itself only an outage is nobody's fault.
    expect(byHandler(new SealingError(code, 'm'))).toMatchObject({
      class: failureClass === 'retry' ? 'retry' : 'handler',
      code,
    });
  });

  it('has an event tried again whose keys were not loaded, and takes a writer without keys for a bug', () => {
    const error = new KeysNotPreparedError('m');
    expect(classifyFailure(error)).toEqual({ class: 'retry', code: 'KEYS_NOT_PREPARED' });
    expect(byHandler(error)).toMatchObject({ class: 'handler', code: 'KEYS_NOT_PREPARED' });
  });

  it('shows nothing of what a handler throws but name, code and place', () => {
    const secret = 'Ayşe Yılmaz';
    const error = Object.assign(new TypeError(secret), { code: secret, detail: secret });
    const failure = byHandler(error);
    expect(failure).toMatchObject({ class: 'handler', code: 'HANDLER_FAILED', errorName: 'TypeError' });
    expect(failure.frames?.[0]).toContain('failure.test.ts');
    expect(JSON.stringify(failure)).not.toContain('Yılmaz');

    const named = new Error('x');
    named.name = secret;
    expect(byHandler(named).errorName).toBe('Error');
    expect(byHandler(secret)).toEqual({ class: 'handler', code: 'HANDLER_FAILED' });
    expect(byHandler(undefined)).toEqual({ class: 'handler', code: 'HANDLER_FAILED' });
  });

  it('ends on a chain of causes that goes in a circle', () => {
    const circle = new Error('a');
    circle.cause = circle;
    expect(byHandler(circle).class).toBe('handler');
  });
});

describe('isServerAnswer', () => {
  it('knows SQLSTATEs from codes of the operating system', () => {
    expect(isServerAnswer(coded('25P02'))).toBe(true);
    expect(isServerAnswer(coded('EPIPE'))).toBe(false);
    expect(isServerAnswer(new Error('Connection terminated'))).toBe(false);
  });
});

describe('stackFrames', () => {
  it('never contains a message, whatever its form', () => {
    const word = fc.string({ minLength: 12, maxLength: 30 }).map((text) => `canary${text}`);
    const line = fc.oneof(
      word,
      word.map((name) => `    at ${name} (/srv/app.js:1:1)`),
      word.map((name) => `    at /srv/${name}.js:1:1`),
    );
    fc.assert(
      fc.property(fc.array(line, { minLength: 1, maxLength: 4 }), (lines) => {
        const frames = stackFrames(new Error(lines.join('\n')));
        expect(frames.length).toBeGreaterThan(0);
        expect(frames.join('\n')).not.toContain('canary');
      }),
    );
  });

  it('shows no stack whose message was changed after the throw', () => {
    const error = new Error('first\n    at secret (/srv/secret.js:1:1)');
    void error.stack;
    error.message = 'other';
    expect(stackFrames(error)).toEqual([]);
  });
});
