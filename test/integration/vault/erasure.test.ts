import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { transaction } from '../../../shared/database/index.ts';
import { defineClasses } from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { erasingShop } from '../../support/erasures.ts';

const DAY = 86_400_000;
const database = await testDatabase();
const shop = await erasingShop(database);
const { owner, log } = shop;
const customer = (id: string) => ({ kind: 'customer', id });
const rowsOf = async (table: string, id: string): Promise<number> => {
  const { rows } = await owner.query(`select count(*)::int as n from vault.${table} where subject_id = $1`, [id]);
  return rows[0].n;
};

describe('erasing a person', () => {
  it('destroys at once what may go, restricts what must be kept, and says until when', async () => {
    const { id, keys } = await shop.customer();
    const answer = await shop.erasure().erase({ subject: customer(id) });
    expect(answer.outcome).toBe('done');
    expect(answer.classes).toEqual([
      { class: 'contact', state: 'erased', until: null, keptUntil: null },
      { class: 'tax', state: 'restricted', until: expect.any(Date), keptUntil: null },
    ]);
    const [, tax] = answer.classes;
    expect(Math.abs(tax!.until!.getTime() - Date.now() - 3653 * DAY)).toBeLessThan(DAY);
    expect(await shop.opened(keys.contact)).toBe('erased');
    expect(await shop.opened(keys.tax)).toBe('erased');
    // Rows without bytes stay: erased is not unknown.
    const { rows } = await owner.query(
      'select class, wrapped is null as bare from vault.subject_key where subject_id = $1 order by 1',
      [id],
    );
    expect(rows).toEqual([
      { class: 'contact', bare: true },
      { class: 'tax', bare: true },
    ]);
    expect(await rowsOf('erasure_request', id)).toBe(0);
  });

  it('clears the columns of what is erased, leaves those of what is kept, and touches nobody else', async () => {
    const [gone, stays] = [await shop.customer(), await shop.customer()];
    const before = await shop.row(gone.id);
    await shop.erasure().erase({ subject: customer(gone.id) });
    expect(await shop.row(gone.id)).toEqual({ ...before, name: null, name_index: null });
    expect(await shop.row(stays.id)).toMatchObject({ name: expect.any(String), name_index: 'index' });
    expect(await shop.opened(stays.keys.contact)).toBe('opens');
  });

  it('tells consumers once, in the same transaction, who is erased in what', async () => {
    const { id } = await shop.customer();
    await shop.erasure().erase({ subject: customer(id) });
    expect(await shop.told(id)).toEqual([[1, 'contact', 'tax']]);
  });

  it('writes into the log names of keys, a pseudonym and a time, and nothing else', async () => {
    const { id, keys } = await shop.customer();
    await shop.erasure().erase({ subject: customer(id) });
    const entry = log.entries().at(-1)!;
    expect(entry).toEqual({
      format: 1,
      subject: expect.stringMatching(/^[A-Za-z0-9_-]{43}$/),
      erased: [`contact.${keys.contact.keyId}.1`],
      restricted: [{ key: `tax.${keys.tax.keyId}.1`, until: expect.stringMatching(/Z$/) }],
    });
    expect(JSON.stringify([...log.files.values()].map(String))).not.toContain(id);
  });

  it('may be asked for again: the same answer, no other entry, no other event', async () => {
    const { id } = await shop.customer();
    const erasure = shop.erasure();
    const first = await erasure.erase({ subject: customer(id) });
    const entries = log.entries().length;
    expect(await erasure.erase({ subject: customer(id.toUpperCase()) })).toEqual(first);
    expect(await erasure.status(customer(id))).toEqual(first);
    expect(log.entries()).toHaveLength(entries);
    expect(await shop.told(id)).toHaveLength(1);
  });

  it('whom the vault does not know does nothing, and says so', async () => {
    const entries = log.entries().length;
    expect(await shop.erasure().erase({ subject: customer(randomUUID()) })).toEqual({
      outcome: 'unknown',
      classes: [],
    });
    expect(log.entries()).toHaveLength(entries);
  });

  it('closes classes too in which that person has no key yet: none is made later', async () => {
    const id = randomUUID();
    await shop.keyring().keysToSeal([{ class: 'contact', subject: customer(id) }]);
    const { classes } = await shop.erasure().erase({ subject: customer(id) });
    expect(classes.map(({ state }) => state)).toEqual(['erased', 'erased']);
    const keys = await shop.keyring().keysToSeal([{ class: 'tax', subject: customer(id) }]);
    expect(keys('tax', customer(id))).toBe('erased');
  });

  it('is refused where the vault has a class that the program does not declare, or for nobody', async () => {
    const { id, keys } = await shop.customer();
    const erasure = shop.erasure({ classes: defineClasses({ contact: { erase: 'onRequest' } }) });
    await expect(erasure.erase({ subject: customer(id) })).rejects.toMatchObject({
      code: 'ERASURE_CLASS_UNDECLARED',
      message: expect.stringContaining("'tax'"),
    });
    expect(await shop.opened(keys.contact)).toBe('opens');
    await expect(erasure.erase({ subject: customer('') })).rejects.toMatchObject({ code: 'ERASURE_DECLARATION' });
    await expect(erasure.erase({ subject: customer(id), since: { health: new Date() } })).rejects.toThrow("'health'");
    expect(() => shop.erasure({ delaySeconds: -1 })).toThrow('delay');
  });

  it('counts persons for whom something new was asked, so that a rate can be alarmed', async () => {
    const before = shop.metrics.sum('ErasuresRequested');
    const [one, two] = [await shop.customer(), await shop.customer()];
    for (const { id } of [one, two, one]) await shop.erasure().erase({ subject: customer(id) });
    expect(shop.metrics.sum('ErasuresRequested') - before).toBe(2);
  });

  it('by two at once is done once, and both get the answer', async () => {
    const { id } = await shop.customer();
    const both = Promise.withResolvers<void>();
    let waiting = 0;
    log.beforeCreate = () => {
      waiting += 1;
      if (waiting === 2) both.resolve();
      return both.promise;
    };
    const answers = await Promise.all([1, 2].map(() => shop.erasure().erase({ subject: customer(id) })));
    log.beforeCreate = () => Promise.resolve();
    expect(answers[0]).toEqual(answers[1]);
    expect(answers[0]?.outcome).toBe('done');
    expect(await shop.told(id)).toHaveLength(1);
    expect(await shop.through()).toBe(log.entries().length);
  });

  it('reaches a key that a writer adds in between, with one more entry', async () => {
    const id = randomUUID();
    await shop.keyring().keysToSeal([{ class: 'contact', subject: customer(id) }]);
    log.beforeCreate = async (name) => {
      if (!name.startsWith('entry/')) return;
      log.beforeCreate = () => Promise.resolve();
      await shop.keyring().keysToSeal([{ class: 'tax', subject: customer(id) }]);
    };
    const { outcome, classes } = await shop.erasure().erase({ subject: customer(id) });
    expect([outcome, ...classes.map(({ state }) => state)]).toEqual(['done', 'erased', 'restricted']);
    const { rows } = await owner.query(
      `select key_id from vault.subject_key where subject_id = $1 and class = 'tax' and wrapped is null`,
      [id],
    );
    expect(JSON.stringify(log.entries().at(-1))).toContain(`tax.${rows[0].key_id}.1`);
  });
});

describe('events about an erased person', () => {
  it('case 48: carry the mark from then on, those from before open no more, and the rest of them is as before', async () => {
    const { id } = await shop.customer();
    const pool = database.pool('sealed_sealer', 2);
    const append = async (): Promise<string> => {
      const writer = await shop.outbox().prepare({ subjects: [customer(id)] });
      const data = { customerId: id, size: 7, name: 'Ada', taxId: '17', note: 'rings twice' };
      const [event] = await transaction(pool, (tx) =>
        writer.append(tx, [{ type: 'customer.named', aggregate: { type: 'customer', id }, data }]),
      );
      const { rows } = await owner.query('select data::text as text from outbox.event where id = $1', [event!.id]);
      return rows[0].text as string;
    };
    expect(JSON.parse(await append())).toMatchObject({ name: expect.stringMatching(/^sealed\.1\.contact\./) });
    await shop.erasure().erase({ subject: customer(id) });
    expect(JSON.parse(await append())).toEqual({
      customerId: id,
      size: 7,
      name: 'erased.1',
      taxId: 'erased.1',
      note: 'erased.1',
    });
  });
});

describe('what must be kept', () => {
  it('opens for a login that may look into restricted data, and for no other', async () => {
    const { id, keys } = await shop.customer();
    await shop.erasure().erase({ subject: customer(id) });
    const value = { id, text: (await shop.row(id)).tax_id as string, column: 'tax_id' };
    expect(await shop.opened(keys.tax, value, shop.keyring('sealed_auditor', true))).toBe(`T-${id}`);
    expect(await shop.opened(keys.tax, value, shop.keyring('sealed_auditor'))).toBe('erased');
    expect(await shop.opened(keys.tax, value)).toBe('erased');
    expect(await shop.opened(keys.contact, undefined, shop.keyring('sealed_auditor', true))).toBe('erased');
    const asWriter = shop.keyring('sealed_sealer', true);
    const keysOfWriter = await asWriter.keysToOpen([keys.tax]);
    expect(() => keysOfWriter(keys.tax)).toThrow(expect.objectContaining({ code: 'SEALING_DENIED' }));
  });

  it('is destroyed by the janitor when its time is over, in the log first, and its columns are cleared', async () => {
    const { id, keys } = await shop.customer();
    await shop.erasure().erase({ subject: customer(id) });
    await shop.letPass('3652 days');
    expect(await shop.runJanitor()).toMatchObject({ destroyed: 0 });
    expect(await shop.row(id)).toMatchObject({ tax_id: expect.any(String) });
    await shop.letPass('1 day');
    expect((await shop.runJanitor())['destroyed']).toBeGreaterThanOrEqual(1);
    expect(await rowsOf('restricted_key', id)).toBe(0);
    expect(await shop.row(id)).toMatchObject({ tax_id: null, size: 3 });
    expect(await shop.opened(keys.tax, undefined, shop.keyring('sealed_auditor', true))).toBe('erased');
    expect(log.entries().flatMap(({ erased }) => erased)).toContain(`tax.${keys.tax.keyId}.1`);
    expect((await shop.erasure().status(customer(id))).classes.map(({ state }) => state)).toEqual(['erased', 'erased']);
    expect(await shop.told(id)).toContainEqual([1, 'tax', '']);
  });

  it('counts from the day that the request names, and is erased at once where that is over', async () => {
    const [over, begins] = [await shop.customer(), await shop.customer()];
    const longAgo = new Date(Date.now() - 3654 * DAY);
    const first = await shop.erasure().erase({ subject: customer(over.id), since: { tax: longAgo } });
    expect(first.classes.map(({ state }) => state)).toEqual(['erased', 'erased']);
    const yearsEnd = new Date(Date.now() + 30 * DAY);
    const second = await shop.erasure().erase({ subject: customer(begins.id), since: { tax: yearsEnd } });
    expect(second.classes[1]!.until!.getTime()).toBe(yearsEnd.getTime() + 3653 * DAY);
  });

  it('keeps its branch key from being destroyed', async () => {
    const { id } = await shop.customer();
    await shop.erasure().erase({ subject: customer(id) });
    const retiredLongAgo = `
      update vault.subject_key set wrapped = null where class = 'tax';
      with retired as (update vault.branch_key set state = 'retired' where class = 'tax' returning class)
      insert into vault.branch_key (class, version, kms_key, wrapped) select class, 2, 'k', '\\x00' from retired;
      update vault.branch_key set retired_at = now() - interval '2 hours' where class = 'tax' and version = 1`;
    const destroying = transaction(owner, async (tx) => {
      await tx.query(retiredLongAgo);
      await tx.query(
        `update vault.branch_key set state = 'destroyed', wrapped = null where class = 'tax' and version = 1`,
      );
    });
    await expect(destroying).rejects.toMatchObject({
      code: 'VA002',
      message: 'branch key tax 1 still wraps keys that must be kept',
    });
  });
});

describe('a delay', () => {
  it('lets everything be as it is until it is over; then the janitor erases', async () => {
    const { id, keys } = await shop.customer();
    const erasure = shop.erasure({ delaySeconds: 3600 });
    const answer = await erasure.erase({ subject: customer(id) });
    expect(answer).toMatchObject({
      outcome: 'waiting',
      classes: [
        { class: 'contact', state: 'waiting', until: expect.any(Date), keptUntil: null },
        { class: 'tax', state: 'waiting', until: expect.any(Date), keptUntil: expect.any(Date) },
      ],
    });
    expect(await erasure.erase({ subject: customer(id) })).toEqual(answer);
    expect(await shop.opened(keys.contact)).toBe('opens');
    await shop.runJanitor();
    expect(await shop.opened(keys.contact)).toBe('opens');
    expect(shop.metrics.sum('ErasuresWaiting')).toBeGreaterThan(0);
    await shop.letPass('61 minutes');
    expect((await shop.runJanitor())['finished']).toBeGreaterThanOrEqual(1);
    expect(await shop.opened(keys.contact)).toBe('erased');
    expect((await erasure.status(customer(id))).outcome).toBe('done');
  });

  it('can be cancelled until it is over, and not after', async () => {
    const [cancelled, late] = [await shop.customer(), await shop.customer()];
    const erasure = shop.erasure({ delaySeconds: 3600 });
    await erasure.erase({ subject: customer(cancelled.id) });
    expect(await erasure.cancel(customer(cancelled.id))).toEqual(['contact', 'tax']);
    expect((await erasure.status(customer(cancelled.id))).outcome).toBe('open');
    expect(await erasure.cancel(customer(cancelled.id))).toEqual([]);

    await erasure.erase({ subject: customer(late.id) });
    await shop.letPass('61 minutes');
    expect(await erasure.cancel(customer(late.id))).toEqual([]);
    await shop.runJanitor();
    expect(await erasure.cancel(customer(late.id))).toEqual([]);
    expect(await shop.opened(late.keys.contact)).toBe('erased');
    expect(await shop.opened(cancelled.keys.contact)).toBe('opens');
  });
});
