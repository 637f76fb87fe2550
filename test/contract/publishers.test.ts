import { eventBridgeContext } from '../support/event-bridge-context.ts';
import { foundLocalStack } from '../support/found-localstack.ts';
import { publisherConformance } from '../support/publisher-conformance.ts';
import { SQS_ANSWERS, sqsContext } from '../support/sqs-context.ts';

const localstack = await foundLocalStack();
const skip = 'missing' in localstack ? localstack.missing : undefined;
const aws =
  'missing' in localstack
    ? { endpoint: '', region: '', credentials: { accessKeyId: '', secretAccessKey: '' } }
    : localstack;

publisherConformance('SQS FIFO on LocalStack', { fifo: true, text: 'exact', ...SQS_ANSWERS, skip }, () =>
  sqsContext(aws, true),
);
publisherConformance('standard SQS on LocalStack', { fifo: false, text: 'exact', ...SQS_ANSWERS, skip }, () =>
  sqsContext(aws, false),
);
publisherConformance(
  'EventBridge on LocalStack',
  {
    fifo: false,
    // It parses and writes the detail again.
    text: 'json',
    refused: { body: 'not JSON', code: 'MalformedDetail' },
    // LocalStack 4.9 has the limit of 256 KB that AWS had until 2026.
    takesOnly: 262_000,
    skip,
  },
  () => eventBridgeContext(aws),
);
