import { activeTraceparent, inSpan } from '../../telemetry/index.ts';
import type { Publisher } from '../publish/publisher.ts';
import type { InstalledDestination } from './delivery.ts';

/** OpenTelemetry's names of messaging systems; it has none for EventBridge. */
const SYSTEMS: Readonly<Record<string, string>> = {
  'sqs-fifo': 'aws_sqs',
  sqs: 'aws_sqs',
  eventbridge: 'aws_eventbridge',
};

/**
 * Puts each call into a span, linked to every message's trace. The spans are traces of their own, linked to the run: below it, one trace
 * would hold the thousands of calls of a run, sampled all or none.
 */
export function tracedPublisher(publisher: Publisher, { name, kind }: InstalledDestination): Publisher {
  const attributes = {
    'messaging.system': SYSTEMS[kind] ?? kind,
    'messaging.operation.name': 'send',
    'messaging.operation.type': 'send',
    'messaging.destination.name': name,
  };
  return {
    limits: publisher.limits,
    ...(publisher.sizeOf !== undefined && { sizeOf: publisher.sizeOf.bind(publisher) }),
    preflight: () => publisher.preflight(),
    publish: (messages) =>
      inSpan(
        `send ${name}`,
        {
          // The messages were created at append, so this is no producer of theirs.
          kind: 'client',
          parent: 'none',
          attributes: { ...attributes, 'messaging.batch.message_count': messages.length },
          links: [activeTraceparent(), ...messages.map(({ traceparent }) => traceparent)],
        },
        async (span) => {
          const results = await publisher.publish(messages);
          const refused = results.filter(({ ok }) => !ok).length;
          if (refused > 0) span.set({ 'sealed_outbox.refused_count': refused });
          return results;
        },
      ),
    close: () => publisher.close(),
  };
}
