import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { wantedOf } from '../../infra/cost/arguments.ts';
import { billOf, type Line, MEMORY, type Part, PARTS, sum } from '../../infra/cost/bill.ts';
import { type Price, prices, type Prices, standingOf } from '../../infra/cost/prices.ts';
import { rendered } from '../../infra/cost/render.ts';
import { SAMPLE_FAN_OUT, trafficOf, type Workload } from '../../infra/cost/traffic.ts';
import { ROOT, synthesise } from './synthesised.ts';

const DAYS = 365 / 12;
const million = (stage: 'dev' | 'prod', more: Partial<Workload> = {}): Workload => ({
  stage,
  eventsPerDay: 1_000_000,
  payloadBytes: 1024,
  fanOut: SAMPLE_FAN_OUT,
  ...more,
});

const quantityOf = (lines: readonly Line[], price: Line['price']): number =>
  lines.filter((line) => line.price === price).reduce((total, { quantity }) => total + quantity, 0);

describe('traffic', () => {
  const onlyFifo = { fanOut: { fifo: 1, bus: 0, queue: 0 } };

  it('counts a send, a receive and a delete for each message of a relay that goes on', () => {
    const { fifoRequests, standardRequests, busEvents, perCall } = trafficOf(million('prod', onlyFifo), {
      relayMode: 'continuous',
    });
    expect(perCall).toBe(1);
    expect(fifoRequests).toBeCloseTo(3 * 1_000_000 * DAYS);
    expect([standardRequests, busEvents]).toEqual([0, 0]);
  });

  it('counts a tenth of it for one that drains, which finds calls full, but never fewer receives than an idle queue costs', () => {
    const { fifoRequests, perCall } = trafficOf(million('dev', onlyFifo), { relayMode: 'drain' });
    expect(perCall).toBe(10);
    expect(fifoRequests).toBeCloseTo(0.3 * 1_000_000 * DAYS);
    const quiet = trafficOf(million('dev', { ...onlyFifo, eventsPerDay: 1 }), { relayMode: 'drain' });
    expect(quiet.fifoRequests).toBeCloseTo(DAYS + 5 * 3 * 60 * 730 + DAYS);
  });

  it('charges every 64 KB that a call begins', () => {
    const large = million('prod', { ...onlyFifo, payloadBytes: 100_000 });
    expect(trafficOf(large, { relayMode: 'continuous' }).fifoRequests).toBeCloseTo((2 + 2 + 1) * 1_000_000 * DAYS);
    const bus = { ...large, fanOut: { fifo: 0, bus: 1, queue: 0 } };
    expect(trafficOf(bus, { relayMode: 'continuous' }).busEvents).toBeCloseTo(2 * 1_000_000 * DAYS);
  });
});

describe('the bill', () => {
  it('is the sum of its lines, each its quantity times its price', () => {
    const { lines, usd, kafka } = billOf(million('prod'), prices);
    for (const line of lines)
      expect(line.usd).toBeCloseTo((line.quantity / prices[line.price].of) * prices[line.price].usd);
    expect(usd).toBeCloseTo(sum(lines));
    const replaced = lines.filter(({ part }) => part === 'relay' || part === 'queues and bus');
    expect(kafka.usd).toBeCloseTo(usd - sum(replaced) + sum(kafka.lines));
  });

  it('has a relay that is always there in prod, and one that starts each minute in dev', () => {
    const seconds = (stage: 'dev' | 'prod') => {
      const { lines } = billOf(million(stage), prices);
      return (
        quantityOf(
          lines.filter(({ part }) => part === 'relay'),
          'lambda-gb-second',
        ) / MEMORY.relay
      );
    };
    expect(seconds('prod')).toBe(730 * 3600);
    expect(seconds('dev')).toBeCloseTo(730 * 60 * 1.5 + (1_000_000 * DAYS * (7 / 3)) / 3000);
  });

  it('follows the price file: a price that doubles doubles its lines and nothing else', () => {
    const dearer: Prices = { ...prices, 'sqs-fifo': { ...prices['sqs-fifo'], usd: 1 } };
    const before = billOf(million('prod'), prices);
    const after = billOf(million('prod'), dearer);
    const fifo = before.lines.filter(({ price }) => price === 'sqs-fifo');
    expect(after.usd - before.usd).toBeCloseTo(sum(fifo));
  });

  it('has no part for what is written and kept that gets cheaper when events get larger', () => {
    const size = fc.record({
      eventsPerDay: fc.integer({ min: 1, max: 1e8 }),
      payloadBytes: fc.integer({ min: 1, max: 200_000 }),
    });
    fc.assert(
      fc.property(
        fc.constantFrom('dev' as const, 'prod' as const),
        size,
        fc.integer({ min: 1, max: 50_000 }),
        (stage, it, more) => {
          const cost = (given: Partial<Workload>) => {
            const { lines } = billOf(million(stage, { ...it, ...given }), prices);
            return sum(lines.filter(({ part }) => part === 'database' || part === 'keeping' || part === 'writer'));
          };
          expect(cost({ payloadBytes: it.payloadBytes + more })).toBeGreaterThanOrEqual(cost({}) - 1e-6);
        },
      ),
      { seed: 7, numRuns: 200 },
    );
  });

  it('takes the capacity that is given in place of its own', () => {
    const acu = (given: Partial<Workload>) => quantityOf(billOf(million('prod', given), prices).lines, 'aurora-acu');
    expect(acu({ acu: 4 })).toBe(4 * 2 * 730);
    expect(acu({})).toBe(1 * 2 * 730);
    expect(acu({ eventsPerDay: 1e9 })).toBe(16 * 2 * 730);
  });

  it.each(['dev', 'prod'] as const)('counts what the templates of %s have', (stage) => {
    const { resources, functionNamed } = synthesise(stage);
    const memory = (name: string) => functionNamed(name)[1].Properties['MemorySize'] / 1024;
    expect(MEMORY).toEqual({
      relay: memory('relay'),
      monitor: memory('monitor'),
      consumer: memory('ledger'),
      janitor: memory('janitor'),
      api: memory('api'),
    });
    const { lines } = billOf(million(stage), prices);
    const interfaces = resources('AWS::EC2::VPCEndpoint').filter(
      ([, { Properties }]) => Properties['VpcEndpointType'] === 'Interface',
    );
    const places = interfaces.reduce((total, [, { Properties }]) => total + Properties['SubnetIds'].length, 0);
    expect(quantityOf(lines, 'endpoint-hour')).toBe(places * 730);
    expect(quantityOf(lines, 'nat-hour')).toBe(resources('AWS::EC2::NatGateway').length * 730);
    expect(quantityOf(lines, 'kms-key')).toBe(resources('AWS::KMS::Key').length);
    expect(quantityOf(lines, 'alarm')).toBeGreaterThanOrEqual(resources('AWS::CloudWatch::Alarm').length);
    expect(quantityOf(lines, 'dashboard')).toBeGreaterThanOrEqual(resources('AWS::CloudWatch::Dashboard').length);
    expect(quantityOf(lines, 's3-storage') > 0).toBe(resources('AWS::S3::Bucket').length > 1);
  });
});

describe('the price file', () => {
  it.each(Object.entries<Price>(prices))(
    'says of %s what it is for, where to check it, and where it was read',
    (_name, price) => {
      expect(price.usd).toBeGreaterThan(0);
      expect(price.of).toBeGreaterThanOrEqual(1);
      expect(new URL(price.page).hostname).toBe('aws.amazon.com');
      if (price.seen === null) expect(standingOf(price)).toBe('unverified');
      else expect(price.seen.on).toMatch(/^20\d\d(-\d\d){0,2}$/);
    },
  );

  it('calls verified only what was read on AWS itself', () => {
    const price = (at: string): Price => ({
      usd: 1,
      per: 'x',
      of: 1,
      page: 'https://aws.amazon.com/',
      seen: { at, on: '2026-11' },
    });
    expect(standingOf(price('https://aws.amazon.com/sqs/pricing/'))).toBe('aws');
    expect(standingOf(price('https://aws.amazon.com.example.org/sqs/'))).toBe('second-hand');
  });
});

describe('what is printed', () => {
  it('marks each price that nobody has checked, and says which', () => {
    const text = rendered(billOf(million('prod'), prices), prices);
    for (const line of text.split('\n').filter((it) => it.includes('broker-hour'))) expect(line).toMatch(/ \*$/);
    expect(text).toMatch(/unverified, from memory: .*msk-m7g-large/);
  });

  it('is what docs/cost.md says of a million events a day', () => {
    const document = readFileSync(join(ROOT, 'docs/cost.md'), 'utf8');
    const bills = (['dev', 'prod'] as const).map((stage) => billOf(million(stage), prices));
    const figure = (usd: number) => String(Math.round(usd));
    const row = (name: string, values: number[]) => `| ${name} | ${values.map(figure).join(' | ')} |`;
    const parts = PARTS.filter((part) => part !== 'Kafka').map((part: Part) =>
      row(
        part,
        bills.map(({ lines }) => sum(lines.filter((line) => line.part === part))),
      ),
    );
    expect(document).toContain(
      [
        ...parts,
        row(
          '**together**',
          bills.map(({ usd }) => usd),
        ),
        row(
          'Debezium on MSK in place of relay, queues and bus',
          bills.map(({ kafka }) => kafka.usd),
        ),
      ].join('\n'),
    );
  });
});

describe('the arguments', () => {
  it('describe a workload, the rest being the sample’s and prod', () => {
    expect(wantedOf(['--events-per-day', '1000000', '--payload', '1024'])).toEqual({
      help: false,
      json: false,
      workload: { ...million('prod'), acu: undefined },
    });
    expect(wantedOf(['--help'])).toEqual({ help: true });
  });

  it.each([
    [[], /--events-per-day and --payload \(bytes\) are needed/],
    [['--events-per-day', 'many', '--payload', '1'], /--events-per-day must be a number/],
    [['--events-per-day', '', '--payload', '1'], /--events-per-day must be a number/],
    [['--events-per-day', '1', '--payload', '0'], /--payload must be a number from 1/],
    [['--events-per-day', '1', '--payload', '1', '--stage', 'local'], /dev or prod/],
    [['--events', '1'], /Unknown option '--events'/],
  ])('%j are refused', (words, complaint) => {
    expect(() => wantedOf(words)).toThrow(complaint);
  });
});
