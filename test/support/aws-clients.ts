import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { SQSClient } from '@aws-sdk/client-sqs';

export interface AwsAddress {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

/** As the relay makes it: no retries of its own. */
export function sqsClient({ endpoint, region, credentials }: AwsAddress): SQSClient {
  return new SQSClient({ endpoint, region, credentials, useQueueUrlAsEndpoint: false, maxAttempts: 1 });
}

export function eventBridgeClient({ endpoint, region, credentials }: AwsAddress): EventBridgeClient {
  return new EventBridgeClient({ endpoint, region, credentials, maxAttempts: 1 });
}
