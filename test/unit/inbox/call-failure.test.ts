import { describe, expect, it } from 'vitest';
import {
  AnswerNotRecordableError,
  CallHeldError,
  CallNotDoneError,
  CallNotReadyError,
  CallOptionsError,
  CallRefusedError,
  CallUnansweredError,
} from '../../../shared/inbox/call-errors.ts';
import { HandlerFailedError, OutOfTimeError } from '../../../shared/inbox/errors.ts';
import { classifyFailure } from '../../../shared/inbox/failure.ts';

const ofBefore = (cause: unknown) => classifyFailure(new HandlerFailedError(cause, false));
const unanswered = (cause: unknown) => ofBefore(new CallUnansweredError({ cause }));

describe('a step before the transaction that fails', () => {
  it.each([
    ['a call that another delivery makes', new CallNotReadyError('CALL_LEASED'), 'retry', 'CALL_LEASED'],
    ['a call that may still happen', new CallNotReadyError('CALL_UNSETTLED'), 'retry', 'CALL_UNSETTLED'],
    ['a provider that does nothing for now', new CallNotDoneError(), 'retry', 'CALL_NOT_DONE'],
    ['too little time', new OutOfTimeError(), 'time', 'OUT_OF_TIME'],
    ['a provider that refuses', new CallRefusedError(), 'handler', 'CALL_REFUSED'],
    ['a call that waits for a person', new CallHeldError(), 'handler', 'CALL_HELD'],
    ['an answer that is too large', new AnswerNotRecordableError('x'), 'handler', 'ANSWER_NOT_RECORDABLE'],
    ['a wrong use', new CallOptionsError('x'), 'handler', 'CALL_OPTIONS'],
  ])('over %s is sorted', (_, error, failureClass, code) => {
    expect(ofBefore(error)).toMatchObject({ class: failureClass, code });
  });

  it.each([
    ['fetch', new TypeError('fetch failed', { cause: new Error('other side closed') })],
    ['a time-out', new DOMException('the time is up', 'TimeoutError')],
    ['a status', new Error('the provider answered 500')],
    ['an answer that is no JSON', new SyntaxError('Unexpected token <')],
    ['nothing', undefined],
  ])('over a provider that is away is not charged, whatever says so: %s', (_, cause) => {
    expect(unanswered(cause)).toMatchObject({ class: 'retry' });
  });

  it.each([new TypeError('x is undefined'), new ReferenceError('x is not defined'), new RangeError('x')])(
    'over its own mistake is charged: %s',
    (cause) => {
      expect(unanswered(cause)).toMatchObject({ class: 'handler' });
    },
  );

  it('says where it happened, and nothing of what it says', () => {
    const failure = unanswered(new Error('no such mailbox: ayse@example.com'));
    expect(failure).toMatchObject({ class: 'retry', code: 'CALL_UNANSWERED', errorName: 'Error' });
    expect(failure.frames?.[0]).toContain('call-failure.test.ts');
    expect(JSON.stringify(failure)).not.toContain('ayse');
  });
});
