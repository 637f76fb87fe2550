import type { SQSRecord } from 'aws-lambda';
import type { ReceivedEvent } from '../events/index.ts';
import type { Log, Metrics } from '../telemetry/index.ts';
import type { Applied } from './apply.ts';
import type { Failure } from './failure.ts';

/** Says what became of messages: log lines with names and codes, metrics per consumer. Never a body, never data. */
export interface OutcomeReport {
  applied(event: ReceivedEvent, applied: Applied): void;
  /** `behind`: how many messages of the same group go back because of this one. */
  failed(record: SQSRecord, event: ReceivedEvent | undefined, failure: Failure, behind: number): void;
  /** Messages that were never started because too little time was left. */
  notStarted(count: number): void;
  /** The whole batch goes back because the consumer could not be registered. */
  notRegistered(failure: Failure, count: number): void;
}

const LEVEL = {
  retry: 'warn',
  gap: 'warn',
  time: 'warn',
  late: 'error',
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
  return {
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
      }
    },
    failed(record, event, failure, behind) {
      returned(failure.class, 1);
      returned('behind', behind);
      const { class: failureClass, expected, ...rest } = failure;
      log[LEVEL[failureClass]]('a message goes back to the queue', {
        consumer,
        class: failureClass,
        ...rest,
        ...(expected === undefined ? {} : { expected: expected.toString() }),
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
