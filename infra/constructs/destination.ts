import type { IEventBus } from 'aws-cdk-lib/aws-events';
import type { IQueue } from 'aws-cdk-lib/aws-sqs';
import type { Catalogue } from '../../shared/events/index.ts';
import type { IEventQueue } from './event-queue.ts';

/** Where events go: a queue with what belongs to it, any queue of SQS, or a bus of EventBridge. */
export type Destination = IEventQueue | IQueue | IEventBus;

export function isBus(destination: Destination): destination is IEventBus {
  return 'eventBusArn' in destination;
}

/** The queue of a destination that is no bus. */
export function queueOf(destination: IEventQueue | IQueue): IQueue {
  return 'queueUrl' in destination ? destination : destination.queue;
}

function kindOf(destination: Destination): string {
  if (isBus(destination)) return 'eventbridge';
  return queueOf(destination).fifo ? 'sqs-fifo' : 'sqs';
}

/**
 * Holds destinations against the catalogue, where it is known at synthesis: each of its names, and the kind of each.
 *
 * @param path of the construct, for the message
 * @throws RangeError for none at all, a name that the catalogue has not or that is missing, or another kind
 */
export function checkDestinations(
  path: string,
  destinations: Readonly<Record<string, Destination>>,
  catalogue: Catalogue | undefined,
): void {
  const wrong = (what: string): RangeError => new RangeError(`${path}: ${what} Nothing was synthesised.`);
  const given = Object.entries(destinations);
  if (given.length === 0) throw wrong('there are no destinations: every event would wait for ever.');
  if (catalogue === undefined) return;
  const missing = Object.keys(catalogue.destinations).filter((name) => !Object.hasOwn(destinations, name));
  if (missing.length > 0) {
    throw wrong(
      `the catalogue sends events to ${missing.join(', ')}, for which there is no queue or bus: they would wait for ever.`,
    );
  }
  for (const [name, destination] of given) {
    const wanted = Object.hasOwn(catalogue.destinations, name) ? catalogue.destinations[name]?.kind : undefined;
    if (wanted === undefined)
      throw wrong(`the catalogue has no destination ${name}. Take it out, or write it as there.`);
    const kind = kindOf(destination);
    if (kind !== wanted) throw wrong(`${name} is ${kind}, and the catalogue says ${wanted}.`);
  }
}
