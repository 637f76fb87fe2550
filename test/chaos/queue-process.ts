/** SQS for one run, in a process of its own so that it has a processor while the run works. Ends when its parent does. */
import { startFauxqs } from 'fauxqs';

const server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
const urls = Object.fromEntries(
  process.argv
    .slice(2)
    .map((name) => [name, server.createQueue(`${name}.fifo`, { attributes: { FifoQueue: 'true' } }).queueUrl]),
);
console.log(JSON.stringify({ port: server.port, urls }));
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => {});
