import { describe, expect, it } from 'vitest';
import { janitorConfig, JanitorConfigError } from '../../../functions/janitor/config.ts';

const DAY = 86_400;

describe('the environment of the janitor', () => {
  it('needs nothing: a fortnight of events, five weeks of dedupe rows, no archive', () => {
    expect(janitorConfig({})).toEqual({
      outboxSeconds: 14 * DAY,
      inboxSeconds: 35 * DAY,
      also: [],
      archive: undefined,
      maxSeconds: 240,
      rest: 1,
    });
  });

  it('leaves out an area, where another database has it', () => {
    expect(janitorConfig({ OUTBOX_KEEP_DAYS: 'none', INBOX_KEEP_DAYS: '0.5' })).toMatchObject({
      outboxSeconds: undefined,
      inboxSeconds: DAY / 2,
    });
  });

  it.each([
    ['s3://my-bucket', { kind: 's3', bucket: 'my-bucket' }],
    ['file:///var/archive', { kind: 'folder', path: '/var/archive' }],
    ['none', undefined],
  ])('takes %s for an archive', (value, archive) => {
    expect(janitorConfig({ JANITOR_ARCHIVE: value }).archive).toEqual(archive);
  });

  it.each([
    ['OUTBOX_KEEP_DAYS', '0'],
    ['OUTBOX_KEEP_DAYS', ''],
    ['INBOX_KEEP_DAYS', 'for ever'],
    ['INBOX_KEEP_DAYS', '-1'],
    ['JANITOR_MAX_SECONDS', 'NaN'],
    ['JANITOR_REST', '0'],
    ['JANITOR_ARCHIVE', 's3://Bucket'],
    ['JANITOR_ARCHIVE', 'file://relative'],
    ['JANITOR_ARCHIVE', 'bucket'],
    ['JANITOR_ALSO', '['],
    ['JANITOR_ALSO', '[]'],
    ['JANITOR_ALSO', '{"a.b": 0}'],
    ['JANITOR_ALSO', '{"a.b; drop table c": 1}'],
  ])('refuses %s=%s and names the variable', (name, value) => {
    expect(() => janitorConfig({ [name]: value })).toThrow(JanitorConfigError);
    expect(() => janitorConfig({ [name]: value })).toThrow(name);
  });
});
