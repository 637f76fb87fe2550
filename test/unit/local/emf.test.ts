import { describe, expect, it } from 'vitest';
import { samplesOfLine } from '../../../local/cloudwatch/emf.ts';
import { createSampleStore } from '../../../local/cloudwatch/samples.ts';

const line = (document: object): string => JSON.stringify(document);
const directive = (Dimensions: unknown, ...names: string[]): object => ({
  Namespace: 'SealedOutbox',
  Dimensions,
  Metrics: names.map((Name) => ({ Name, Unit: 'Seconds' })),
});

describe('samplesOfLine', () => {
  it('makes one sample per metric and dimension set', () => {
    const samples = samplesOfLine(
      line({
        _aws: {
          Timestamp: 5,
          CloudWatchMetrics: [directive([['Installation'], ['Installation', 'Destination']], 'Age')],
        },
        Installation: 'i',
        Destination: 'ledger',
        Age: 3.5,
      }),
      9,
    );
    const common = { namespace: 'SealedOutbox', name: 'Age', unit: 'Seconds', value: 3.5, at: 5 };
    expect(samples).toEqual([
      { ...common, dimensions: { Installation: 'i' } },
      { ...common, dimensions: { Installation: 'i', Destination: 'ledger' } },
    ]);
  });

  it('takes every value of a list, and the time of arrival where the line brings none', () => {
    const samples = samplesOfLine(line({ _aws: { CloudWatchMetrics: [directive([[]], 'Age')] }, Age: [1, 2] }), 9);
    expect(samples?.map(({ value, at, dimensions }) => ({ value, at, dimensions }))).toEqual([
      { value: 1, at: 9, dimensions: {} },
      { value: 2, at: 9, dimensions: {} },
    ]);
  });

  it('leaves out a metric without a number and a set without its dimension', () => {
    const text = line({
      _aws: { CloudWatchMetrics: [directive([['Gone'], []], 'Age', 'Absent', 'Text')] },
      Age: 1,
      Text: 'x',
    });
    expect(samplesOfLine(text, 9)).toHaveLength(1);
  });

  it.each(['', 'START RequestId: 1', '{"level":"INFO"}', '{"_aws":{}}', '{"_aws":', '[1]', 'null'])(
    'is null for a line of another kind: %s',
    (text) => expect(samplesOfLine(text, 9)).toBeNull(),
  );
});

describe('createSampleStore', () => {
  const sample = (dimensions: Record<string, string>, at = 0) => ({
    namespace: 'N',
    name: 'M',
    unit: 'None',
    value: 1,
    dimensions,
    at,
  });

  it('keeps metrics with other dimensions apart, in whatever order they are named', () => {
    const store = createSampleStore(() => 0);
    store.add([sample({ a: '1', b: '2' }), sample({ a: '1' })]);
    expect(store.of({ namespace: 'N', name: 'M', dimensions: { b: '2', a: '1' } })).toHaveLength(1);
    expect(store.of({ namespace: 'N', name: 'M', dimensions: {} })).toHaveLength(0);
  });

  it('forgets what is older than an hour', () => {
    let now = 0;
    const store = createSampleStore(() => now);
    store.add([sample({}, 0)]);
    now = 3_600_001;
    store.add([sample({}, now)]);
    expect(store.of(sample({})).map(({ at }) => at)).toEqual([now]);
  });
});
