import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { buildEnvelope, type EnvelopeRow, parseEnvelope } from '../../../shared/events/index.ts';
import { anyText } from '../../support/any-text.ts';

const row: EnvelopeRow = {
  id: '01936f2e-7d5a-7c3e-9a51-0123456789ab',
  source: '/invoices',
  type: 'invoice.issued',
  schemaVersion: 3,
  aggregateType: 'invoice',
  aggregateId: '42',
  sequence: '7',
  occurredAt: '2026-11-30T09:16:00.123456Z',
  data: '{"totalMinor": 100}',
  metadata: null,
};

/** What SQS takes in a body. */
const SQS_BODY = /^[\t\n\r\u{20}-\u{D7FF}\u{E000}-\u{FFFD}\u{10000}-\u{10FFFF}]*$/u;

/** PostgreSQL's text: whole code points, without U+0000. */
const storedText = anyText
  .map((text) => text.toWellFormed().replaceAll('\u0000', '\u2028'))
  .filter((text) => text.length > 0);

const awkward = fc.constantFrom(
  'İstanbul’da ığdır',
  '👩‍👩‍👧',
  '\u2028\u2029',
  '\uFFFE\uFFFF',
  '"\\/',
  '\u0001\u001f',
  '\u{1FFFE}',
);

const rows: fc.Arbitrary<EnvelopeRow> = fc.record({
  id: fc.uuid({ version: 7 }),
  source: fc.constantFrom('/invoices', 'urn:tests', 'https://example.com/a'),
  type: fc.constantFrom('invoice.issued', 'a', 'a.b-c.9'),
  schemaVersion: fc.integer({ min: 1, max: 9999 }),
  aggregateType: fc.constantFrom('invoice', 'a.b'),
  aggregateId: fc.oneof(storedText, awkward),
  sequence: fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }),
  occurredAt: fc
    .tuple(
      fc.date({ min: new Date(0), max: new Date('9999-12-31'), noInvalidDate: true }),
      fc.integer({ min: 0, max: 999 }),
    )
    .map(([date, micros]) => date.toISOString().replace('Z', `${String(micros).padStart(3, '0')}Z`)),
  data: fc
    .oneof(
      fc.json(),
      awkward.map((text) => JSON.stringify({ text })),
    )
    .map((json) => json.toWellFormed()),
  metadata: fc.option(
    fc.record(
      {
        traceparent: fc.constant('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'),
        correlationid: awkward,
        causationid: fc.uuid(),
      },
      { requiredKeys: [] },
    ),
  ),
});

const reason = (change: Record<string, unknown>): unknown => {
  const body = JSON.stringify({ ...(JSON.parse(buildEnvelope(row)) as object), ...change });
  const parsed = parseEnvelope(body);
  return parsed.ok ? 'accepted' : `${parsed.fault}: ${parsed.reason}`;
};

describe('buildEnvelope', () => {
  it('writes CloudEvents 1.0 with the extensions of the outbox', () => {
    const metadata = { correlationid: 'order 9' };
    expect(JSON.parse(buildEnvelope({ ...row, metadata }))).toEqual({
      specversion: '1.0',
      id: row.id,
      source: '/invoices',
      type: 'invoice.issued',
      subject: '42',
      time: '2026-11-30T09:16:00.123456Z',
      datacontenttype: 'application/json',
      dataschema: '/invoices/schemas/invoice.issued/3',
      sequence: '7',
      partitionkey: 'invoice/42',
      aggregatetype: 'invoice',
      correlationid: 'order 9',
      data: { totalMinor: 100 },
    });
  });

  it('says which replay sends an event again, and nothing where none does', () => {
    const again = buildEnvelope({ ...row, replay: 7 });
    expect(JSON.parse(again)).toMatchObject({ replay: 7 });
    expect(parseEnvelope(again)).toMatchObject({ ok: true, event: { id: row.id, replay: 7 } });
    expect(JSON.parse(buildEnvelope(row))).not.toHaveProperty('replay');
    expect(Object.keys((parseEnvelope(buildEnvelope(row)) as { event: object }).event)).not.toContain('replay');
  });

  it.each([0, -1, 1.5, '7', null, 2 ** 31])('refuses the replay %j', (replay) => {
    const broken = JSON.stringify({ ...JSON.parse(buildEnvelope(row)), replay });
    expect(parseEnvelope(broken)).toMatchObject({
      ok: false,
      fault: 'broken',
      reason: expect.stringContaining('replay'),
    });
  });

  it('leaves the digits of the data as they are stored', () => {
    const data = '{"a": 9007199254740993, "b": 1.10, "c": 1e400, "d": 0.1000000000000000055511151231257827}';
    expect(buildEnvelope({ ...row, data })).toContain(`"data":${data}}`);
  });

  it('holds only characters that SQS accepts, and reads back the same', () => {
    fc.assert(
      fc.property(rows, (any) => {
        const body = buildEnvelope(any);
        expect(body).toMatch(SQS_BODY);
        expect(parseEnvelope(body)).toEqual({
          ok: true,
          event: {
            id: any.id,
            source: any.source,
            type: any.type,
            schemaVersion: any.schemaVersion,
            aggregateType: any.aggregateType,
            aggregateId: any.aggregateId,
            sequence: any.sequence,
            time: any.occurredAt,
            traceparent: any.metadata?.traceparent,
            correlationid: any.metadata?.correlationid,
            causationid: any.metadata?.causationid,
            data: JSON.parse(any.data) as unknown,
          },
        });
      }),
      { numRuns: 500 },
    );
  });
});

describe('parseEnvelope', () => {
  it.each([
    ['', 'the body is not JSON'],
    ['hello', 'the body is not JSON'],
    ['null', 'the body is not a JSON object'],
    ['[1]', 'the body is not a JSON object'],
    ['{"specversion"', 'the body is not JSON'],
    ['{"Records":[]}', 'specversion is missing'],
    ['{"__proto__":{"specversion":"1.0"}}', 'specversion is missing'],
    ['{"specversion":"0.3"}', 'specversion is not 1.0'],
    [`"${'ü'.repeat(600_000)}"`, 'the body has more than 1048576 bytes'],
  ])('tells a message of somebody else: %.30s', (body, expected) => {
    expect(parseEnvelope(body)).toEqual({ ok: false, fault: 'foreign', reason: expected });
  });

  it.each<[Record<string, unknown>, RegExp]>([
    [{ id: 7 }, /^broken: id /],
    [{ id: row.id.toUpperCase() }, /^broken: id /],
    [{ source: '' }, /^broken: source /],
    [{ type: 'Invoice' }, /^broken: type /],
    [{ type: 'a'.repeat(129) }, /^broken: type /],
    [{ aggregatetype: undefined }, /^broken: aggregatetype /],
    [{ subject: '' }, /^broken: subject /],
    [{ subject: 'x'.repeat(201) }, /^broken: subject /],
    [{ subject: '👩'.repeat(201) }, /^broken: subject /],
    [{ subject: 'a\u0000' }, /^broken: subject /],
    [{ partitionkey: 'invoice/43' }, /^broken: partitionkey /],
    [{ sequence: 7 }, /^broken: sequence /],
    [{ sequence: '0' }, /^broken: sequence /],
    [{ sequence: '007' }, /^broken: sequence /],
    [{ sequence: '-1' }, /^broken: sequence /],
    [{ sequence: '9223372036854775808' }, /^broken: sequence /],
    [{ time: 'yesterday' }, /^broken: time /],
    [{ time: '2026-02-29T00:00:00Z' }, /^broken: time /],
    [{ time: '2026-01-01T24:00:00Z' }, /^broken: time /],
    [{ time: '2026-01-01 00:00:00Z' }, /^broken: time /],
    [{ time: '2026-01-01T00:00:00' }, /^broken: time /],
    [{ datacontenttype: 'text/plain' }, /^broken: datacontenttype /],
    [{ dataschema: '/invoices/schemas/invoice.paid/3' }, /^broken: dataschema /],
    [{ dataschema: '/invoices/schemas/invoice.issued/0' }, /^broken: dataschema /],
    [{ dataschema: '/invoices/schemas/invoice.issued/03' }, /^broken: dataschema /],
    [{ dataschema: 3 }, /^broken: dataschema /],
    [{ correlationid: 5 }, /^broken: correlationid /],
    [{ data: undefined }, /^broken: data is missing/],
  ])('refuses %j', (change, expected) => {
    expect(reason(change)).toMatch(expected);
  });

  it.each<Record<string, unknown>>([
    { data: null },
    { data: 'text' },
    { time: '2024-02-29T23:59:59+02:00' },
    { sequence: '9223372036854775807' },
    { subject: '👩'.repeat(200), partitionkey: `invoice/${'👩'.repeat(200)}` },
    { knows: 'nobody' },
    // W3C: a trace context that is none is ignored.
    { traceparent: 'garbage' },
    { traceparent: 7 },
  ])('accepts %j', (change) => {
    expect(reason(change)).toBe('accepted');
  });

  it('takes the epoch in the high bits of a sequence without loss', () => {
    const parsed = parseEnvelope(buildEnvelope({ ...row, sequence: (5n << 40n) + 1n }));
    expect(parsed.ok && parsed.event.sequence).toBe((5n << 40n) + 1n);
  });

  it('never throws, and never says what was in the message', () => {
    const canary = 'canary-7f3a';
    const valid = JSON.parse(buildEnvelope(row)) as Record<string, unknown>;
    const mutated = fc.tuple(fc.constantFrom(...Object.keys(valid)), fc.anything()).map(([key, value]) => {
      try {
        return JSON.stringify({ ...valid, [key]: value }) ?? '';
      } catch {
        return key;
      }
    });
    fc.assert(
      fc.property(fc.oneof(anyText, fc.json(), mutated), (body) => {
        expect(typeof parseEnvelope(body).ok).toBe('boolean');
      }),
      { numRuns: 1000 },
    );
    for (const key of Object.keys(valid)) expect(reason({ [key]: canary })).not.toContain(canary);
  });
});
