import { expect, it } from 'vitest';
import { emfMetrics } from '../../../shared/telemetry/index.ts';

it('writes each value as one line in the embedded metric format, with one set of dimensions', () => {
  const lines: string[] = [];
  const metrics = emfMetrics({ dimensions: { Installation: 'dev' }, write: (line) => lines.push(line), now: () => 5 });
  metrics.add('Effects', 'Count', 3, { Consumer: 'ledger' });
  metrics.add('RelaySilence', 'Seconds', 1.5);
  expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
    {
      _aws: {
        Timestamp: 5,
        CloudWatchMetrics: [
          {
            Namespace: 'SealedOutbox',
            Dimensions: [['Installation', 'Consumer']],
            Metrics: [{ Name: 'Effects', Unit: 'Count' }],
          },
        ],
      },
      Installation: 'dev',
      Consumer: 'ledger',
      Effects: 3,
    },
    {
      _aws: {
        Timestamp: 5,
        CloudWatchMetrics: [
          {
            Namespace: 'SealedOutbox',
            Dimensions: [['Installation']],
            Metrics: [{ Name: 'RelaySilence', Unit: 'Seconds' }],
          },
        ],
      },
      Installation: 'dev',
      RelaySilence: 1.5,
    },
  ]);
});
