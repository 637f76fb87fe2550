import { describe, expect, it } from 'vitest';
import { janitorConfig, JanitorConfigError } from '../../../functions/janitor/config.ts';
import { email } from '../../../shared/sealing/index.ts';
import { keyRequest } from '../../../functions/janitor/keys.ts';

const DAY = 86_400;
const COLUMN = { store: 'shop', table: 'shop.customer', primaryKey: 'id', sealed: 'email', index: 'email_index' };
const KEY_ARN = 'arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab';

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

  it('looks after keys where it is told whose', () => {
    const environment = { SEALING_VAULT: 'invoices', SEALING_KEY_ARN: KEY_ARN };
    expect(janitorConfig({}).sealing).toBeUndefined();
    expect(janitorConfig(environment).sealing).toEqual({
      vault: 'invoices',
      keyArn: KEY_ARN,
      branchSeconds: 90 * DAY,
      indexes: [],
      indexSeconds: 365 * DAY,
    });
    expect(janitorConfig({ ...environment, SEALING_BRANCH_DAYS: '30' }).sealing?.branchSeconds).toBe(30 * DAY);
    const declared = { name: 'customer-email', class: 'contact', normaliser: 'email', columns: [COLUMN] };
    const { sealing } = janitorConfig({
      ...environment,
      SEALING_INDEX_DAYS: '100',
      JANITOR_INDEXES: JSON.stringify([declared]),
    });
    expect(sealing).toMatchObject({
      indexSeconds: 100 * DAY,
      indexes: [
        { index: { name: 'customer-email', class: 'contact', normaliser: email, bits: 256 }, columns: [COLUMN] },
      ],
    });
  });

  it.each([
    ['SEALING_VAULT', ''],
    ['SEALING_VAULT', 'Invoices'],
    ['SEALING_KEY_ARN', ''],
    ['SEALING_KEY_ARN', 'arn:aws:kms:eu-central-1:123456789012:alias/invoices'],
    ['SEALING_BRANCH_DAYS', '0'],
    ['SEALING_INDEX_DAYS', '-1'],
    ['JANITOR_INDEXES', 'customer-email'],
    ['JANITOR_INDEXES', '{}'],
    ['JANITOR_INDEXES', '[{"name": "customer-email", "class": "contact", "normaliser": "email"}]'],
  ])('refuses %s=%s and names it', (name, value) => {
    const broken = { SEALING_VAULT: 'invoices', SEALING_KEY_ARN: KEY_ARN, [name]: value };
    expect(() => janitorConfig(broken)).toThrow(JanitorConfigError);
    expect(() => janitorConfig(broken)).toThrow(name);
  });
});

describe('what an invocation asks of keys', () => {
  const sealing = { vault: 'invoices', keyArn: KEY_ARN, branchSeconds: DAY, indexes: [], indexSeconds: DAY };
  const renewal = { class: 'contact', subject: { kind: 'customer', id: 'C-1' } };

  it('is nothing, where a schedule invokes it', () => {
    for (const event of [{}, null, 'text', { id: 'a schedule' }]) {
      expect(keyRequest(event, undefined)).toEqual({ rotate: [], rotateIndex: [], renew: [] });
    }
  });

  it('is classes whose branch key is replaced, indexes whose key is, and persons whose key is renewed', () => {
    expect(keyRequest({ rotate: ['contact'], rotateIndex: ['customer-email'], renew: [renewal] }, sealing)).toEqual({
      rotate: ['contact'],
      rotateIndex: ['customer-email'],
      renew: [renewal],
    });
  });

  it.each([
    { rotate: 'contact' },
    { rotate: [1] },
    { rotateIndex: 'customer-email' },
    { rotateIndex: [''] },
    { renew: [{ class: 'contact' }] },
    { renew: {} },
    { renew: [null] },
  ])('is refused where it cannot be read: %j', (event) => {
    expect(() => keyRequest(event, sealing)).toThrow(expect.objectContaining({ code: 'JANITOR_EVENT' }));
  });

  it('is refused where there is no vault, instead of passed over', () => {
    for (const event of [{ rotate: ['contact'] }, { rotateIndex: ['customer-email'] }, { renew: [renewal] }]) {
      expect(() => keyRequest(event, undefined)).toThrow(expect.objectContaining({ code: 'JANITOR_EVENT' }));
    }
  });
});
