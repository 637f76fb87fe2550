import type { SQSRecord } from 'aws-lambda';
import type { ReceivedEvent } from '../events/index.ts';
import type { Log, Metrics } from '../telemetry/index.ts';
import type { Applied } from './apply.ts';
import type { Failure } from './failure.ts';

/** Says what became of messages: log lines with names and codes, metrics per consumer. Never a body, never data. */
export interface OutcomeReport {
  applied(event: ReceivedEvent, applied: Applied): void;
  /** A message that could not be applied as it is was kept; `attempts`: failures of its handler. */
  kept(
    record: SQSRecord,
    event: ReceivedEvent | undefined,
    failure: Failure,
    applied: Applied,
    attempts?: number,
  ): void;
  /** A held event was taken out, and this became of it. */
  drained(event: ReceivedEvent, applied: Applied): void;
  /** A held event was tried again and stays where it is. */
  stays(event: ReceivedEvent | undefined, failure: Failure): void;
  /** Several messages could not be applied in one transaction: each goes on in its own. */
  apart(failure: Failure, count: number): void;
  /** What the database should have kept could not be written down; the queue or the next invocation tries again. */
  notWritten(failure: Failure): void;
  /** `behind`: how many messages of the same group go back because of this one. */
  failed(record: SQSRecord, event: ReceivedEvent | undefined, failure: Failure, behind: number): void;
  /** Messages that were never started because too little time was left. */
  notStarted(count: number): void;
  /** The whole batch goes back because the consumer could not be registered. */
  notRegistered(failure: Failure, count: number): void;
  /** These go back to the queue, for whatever reason; each was told of by itself. */
  wentBack(records: readonly SQSRecord[]): void;
}

const LEVEL = {
  retry: 'warn',
  time: 'warn',
  denied: 'error',
  handler: 'error',
  malformed: 'error',
  'unknown-type': 'error',
  'unknown-version': 'error',
} as const;

export function outcomeReport(consumer: string, log: Log, metrics: Metrics): OutcomeReport {
  const dimensions = { Consumer: consumer };
  const returned = (failureClass: string, count: number): void => {
    if (count > 0) metrics.add('Returned', 'Count', count, { ...dimensions, Class: failureClass });
  };
  const countHeld = (reason: string): void => metrics.add('Held', 'Count', 1, { ...dimensions, Reason: reason });
  const report: OutcomeReport = {
    applied(event, applied) {
      switch (applied.kind) {
        case 'effect':
          metrics.add('Effects', 'Count', 1, dimensions);
          metrics.add('EffectAge', 'Seconds', applied.ageSeconds, dimensions);
          break;
        case 'repeat':
          metrics.add('Repeats', 'Count', 1, dimensions);
          log.debug('an event came again and was acknowledged', { consumer, ...identify(event) });
          break;
        case 'ignored':
          metrics.add('Ignored', 'Count', 1, dimensions);
          log.info('an event of a type without a handler was acknowledged', { consumer, ...identify(event) });
          break;
        case 'too-old':
          metrics.add('Ignored', 'Count', 1, dimensions);
          log.warn('an event older than the oldest upcaster was acknowledged without effect', {
            consumer,
            schemaVersion: event.schemaVersion,
            ...identify(event),
          });
          break;
        case 'older':
          metrics.add('DroppedOlder', 'Count', 1, dimensions);
          log.debug('an event older than the last one applied was dropped', { consumer, ...identify(event) });
          break;
        case 'not-accepted':
          metrics.add('Ignored', 'Count', 1, dimensions);
          log.debug('an event of a replay that this consumer takes no part in was acknowledged', {
            consumer,
            replay: event.replay,
            ...identify(event),
          });
          break;
        case 'held':
          countHeld(applied.reason);
          log[applied.reason === 'late' || applied.reason === 'too-old' ? 'error' : 'warn']('an event is held', {
            consumer,
            reason: applied.reason,
            ...(applied.expected === undefined ? {} : { expected: applied.expected.toString() }),
            ...identify(event),
          });
          break;
      }
    },
    kept(record, event, failure, applied, attempts) {
      if (applied.kind !== 'held') {
        if (event !== undefined) report.applied(event, applied);
        return;
      }
      countHeld(applied.reason);
      log.error('a message is held', {
        consumer,
        held: applied.reason,
        ...failureFields(failure),
        ...(attempts === undefined ? {} : { attempts }),
        ...(event === undefined ? {} : identify(event)),
        messageId: record.messageId,
      });
    },
    drained(event, applied) {
      metrics.add('Drained', 'Count', 1, dimensions);
      report.applied(event, applied);
    },
    stays(event, failure) {
      log[LEVEL[failure.class]]('a held event was tried and stays held', {
        consumer,
        ...failureFields(failure),
        ...(event === undefined ? {} : identify(event)),
      });
    },
    apart(failure, count) {
      log.debug('messages are applied one by one', { consumer, count, class: failure.class, code: failure.code });
    },
    notWritten(failure) {
      log.warn('what is held could not be written or gone on with', {
        consumer,
        class: failure.class,
        code: failure.code,
      });
    },
    failed(record, event, failure, behind) {
      returned(failure.class, 1);
      returned('behind', behind);
      log[LEVEL[failure.class]]('a message goes back to the queue', {
        consumer,
        ...failureFields(failure),
        ...(event === undefined ? {} : identify(event)),
        messageId: record.messageId,
        receiveCount: record.attributes.ApproximateReceiveCount,
        returnedBehind: behind,
      });
    },
    notStarted(count) {
      returned('time', count);
      log.warn('messages go back to the queue unstarted: too little time was left', { consumer, count });
    },
    wentBack(records) {
      if (records.length === 0) return;
      const receives = records.map(({ attributes }) => Number(attributes.ApproximateReceiveCount));
      metrics.add('Receives', 'Count', Math.max(...receives), dimensions);
    },
    notRegistered(failure, count) {
      returned(failure.class, count);
      log.error('the batch goes back to the queue: the consumer could not be registered', {
        consumer,
        class: failure.class,
        code: failure.code,
        count,
      });
    },
  };
  return report;
}

function failureFields(failure: Failure): Record<string, unknown> {
  return { ...failure };
}

function identify(event: ReceivedEvent): Record<string, string> {
  return {
    eventId: event.id,
    eventType: event.type,
    aggregateType: event.aggregateType,
    aggregateId: event.aggregateId,
    sequence: event.sequence.toString(),
  };
}
