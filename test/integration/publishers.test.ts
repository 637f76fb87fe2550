import { startFauxqs } from 'fauxqs';
import { afterAll } from 'vitest';
import { publisherConformance } from '../support/publisher-conformance.ts';
import { acceptAstralCharacters } from '../support/queue.ts';
import { REFUSED_BY_SQS, sqsContext } from '../support/sqs-context.ts';

await acceptAstralCharacters();
const server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
afterAll(() => server.stop());

const aws = {
  endpoint: `http://127.0.0.1:${server.port}`,
  region: 'us-east-1',
  credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
};

publisherConformance('SQS FIFO on fauxqs', { fifo: true, text: 'exact', refused: REFUSED_BY_SQS }, () =>
  sqsContext(aws, true),
);
publisherConformance('standard SQS on fauxqs', { fifo: false, text: 'exact', refused: REFUSED_BY_SQS }, () =>
  sqsContext(aws, false),
);
