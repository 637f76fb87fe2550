import { randomUUID } from 'node:crypto';
import { CreateEventBusCommand, PutRuleCommand, PutTargetsCommand } from '@aws-sdk/client-eventbridge';
import { GetQueueAttributesCommand } from '@aws-sdk/client-sqs';
import { eventBridgePublisher } from '../../shared/outbox/index.ts';
import { type AwsAddress, eventBridgeClient, sqsClient } from './aws-clients.ts';
import type { PublisherContext } from './publisher-conformance.ts';
import { createQueue, takeMessages } from './sqs-context.ts';

/** A new bus with a rule that hands the envelope of everything to a new queue, as the stack's does. */
export async function eventBridgeContext(aws: AwsAddress): Promise<PublisherContext> {
  const client = eventBridgeClient(aws);
  const reader = sqsClient(aws);
  const { url } = await createQueue(reader, false);
  const { Attributes } = await reader.send(
    new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: ['QueueArn'] }),
  );
  const bus = `bus-${randomUUID()}`;
  await client.send(new CreateEventBusCommand({ Name: bus }));
  await client.send(
    new PutRuleCommand({ EventBusName: bus, Name: 'all', EventPattern: JSON.stringify({ source: ['/test'] }) }),
  );
  await client.send(
    new PutTargetsCommand({
      EventBusName: bus,
      Rule: 'all',
      Targets: [{ Id: 'queue', Arn: Attributes?.QueueArn, InputPath: '$.detail' }],
    }),
  );
  return {
    publisher: eventBridgePublisher({ client, bus }),
    receive: () => takeMessages(reader, url),
    missing: () => eventBridgePublisher({ client: eventBridgeClient(aws), bus: `missing-${randomUUID()}` }),
    at: (endpoint, timeoutMs) =>
      eventBridgePublisher({ client: eventBridgeClient({ ...aws, endpoint }), bus, timeoutMs }),
  };
}
