import { beforeEach, describe, expect, it } from 'vitest';
import { testDatabase } from '../../support/database.ts';
import { erasingShop } from '../../support/erasures.ts';
import { recordingMetrics } from '../../support/recorders.ts';
import { copyVault, restoreVault } from '../../support/vault-copy.ts';

const database = await testDatabase();
const shop = await erasingShop(database);
const { owner, log, options } = shop;
const customer = (id: string) => ({ kind: 'customer', id });

beforeEach(() => {
  log.failure = null;
  log.beforeCreate = () => Promise.resolve();
  log.afterCreate = () => Promise.resolve();
});

/** Erased in every way, and told once. */
async function expectErased({ id, keys }: Awaited<ReturnType<typeof shop.customer>>): Promise<void> {
  expect((await shop.erasure().status(customer(id))).outcome).toBe('done');
  expect(await shop.opened(keys.contact)).toBe('erased');
  expect(await shop.opened(keys.tax)).toBe('erased');
  expect(await shop.row(id)).toMatchObject({ name: null, name_index: null, tax_id: expect.any(String) });
  expect(await shop.told(id)).toEqual([[1, 'contact', 'tax']]);
  expect(await shop.through()).toBe(log.entries().length);
}

describe('an erasure that is interrupted', () => {
  const down = new Error('the process is gone');
  const onEntry = (name: string) => (name.startsWith('entry/') ? Promise.reject(down) : Promise.resolve());
  const query = options.pool.query.bind(options.pool);
  const STEPS: [string, () => Parameters<typeof shop.erasure>[0]][] = [
    [
      'before the log',
      () => {
        log.beforeCreate = onEntry;
        return {};
      },
    ],
    [
      'when the entry was written, and nobody heard of it',
      () => {
        log.afterCreate = onEntry;
        return {};
      },
    ],
    [
      'when its transaction begins',
      () => {
        // The first one looks for what is due.
        let begun = 0;
        const connect = () => ((begun += 1) === 1 ? options.pool.connect() : Promise.reject(down));
        return { pool: { query, connect } };
      },
    ],
    ['while it tells the consumers', () => ({ announce: () => Promise.reject(down) })],
    [
      'at the end of its transaction',
      () => ({
        announce: async (tx, erased) => {
          await options.announce(tx, erased);
          throw down;
        },
      }),
    ],
  ];

  it.each(STEPS)('%s is recorded, said, and finished by the janitor', async (_, failing) => {
    await shop.customer();
    const person = await shop.customer();
    const broken = shop.erasure(failing());
    await expect(broken.erase({ subject: customer(person.id) })).rejects.toMatchObject({
      code: 'ERASURE_NOT_FINISHED',
      cause: down,
    });
    expect((await shop.erasure().status(customer(person.id))).outcome).toBe('waiting');
    log.beforeCreate = () => Promise.resolve();
    log.afterCreate = () => Promise.resolve();
    await shop.runJanitor();
    await expectErased(person);
    // Nothing is left for another run.
    expect(await shop.runJanitor()).toEqual({ applied: 0, finished: 0, destroyed: 0, told: 0 });
  });

  it.each(STEPS)('%s is finished by whoever asks again', async (_, failing) => {
    const person = await shop.customer();
    const broken = shop.erasure(failing());
    await broken.erase({ subject: customer(person.id) }).catch(() => {});
    log.beforeCreate = () => Promise.resolve();
    log.afterCreate = () => Promise.resolve();
    await shop.erasure().erase({ subject: customer(person.id) });
    await shop.runJanitor();
    await expectErased(person);
  });

  it('when the request was not recorded has done nothing', async () => {
    const person = await shop.customer();
    const pool: typeof options.pool = {
      connect: () => options.pool.connect(),
      query: (text, values) =>
        text.includes('insert into vault.erasure_request') ? Promise.reject(down) : query(text, values),
    };
    await expect(shop.erasure({ pool }).erase({ subject: customer(person.id) })).rejects.toBe(down);
    expect((await shop.erasure().status(customer(person.id))).outcome).toBe('open');
    expect(await shop.opened(person.keys.contact)).toBe('opens');
  });

  it('closes already when the log has it: readers look there', async () => {
    const person = await shop.customer();
    await shop
      .erasure({ announce: () => Promise.reject(down) })
      .erase({ subject: customer(person.id) })
      .catch(() => {});
    expect(await shop.opened(person.keys.contact)).toBe('erased');
    await shop.runJanitor();
  });

  it('does not keep the janitor from others, and fails its run', async () => {
    const [bad, good] = [await shop.customer(), await shop.customer()];
    for (const { id } of [bad, good]) await shop.erasure({ delaySeconds: 60 }).erase({ subject: customer(id) });
    await shop.letPass('2 minutes');
    const run = shop.runJanitor({
      announce: async (tx, erased) => {
        if (erased.subject.id === bad.id) throw down;
        await options.announce(tx, erased);
      },
    });
    await expect(run).rejects.toBe(down);
    expect(await shop.opened(good.keys.contact)).toBe('erased');
    await shop.runJanitor();
    await expectErased(bad);
    await expectErased(good);
  });

  it('that fails in every run is counted as not applied each time, stands in the log once, and ends when it can be done', async () => {
    const person = await shop.customer();
    const failing = { announce: () => Promise.reject(down) };
    await shop
      .erasure(failing)
      .erase({ subject: customer(person.id) })
      .catch(() => {});
    const written = log.entries().length;
    for (const run of ['first', 'second']) {
      const metrics = recordingMetrics();
      await expect(shop.runJanitor({ ...failing, metrics }), `${run} run`).rejects.toBe(down);
      expect(metrics.sum('ErasuresUnapplied'), `${run} run`).toBe(1);
    }
    expect(log.entries()).toHaveLength(written);
    const metrics = recordingMetrics();
    await shop.runJanitor({ metrics });
    expect(metrics.sum('ErasuresUnapplied')).toBe(1);
    await expectErased(person);
    const after = recordingMetrics();
    await shop.runJanitor({ metrics: after });
    expect(after.sum('ErasuresUnapplied')).toBe(0);
  });

  it('of a key that was kept stands in the log once, too, however often it fails', async () => {
    const person = await shop.customer();
    await shop.erasure().erase({ subject: customer(person.id) });
    await shop.runJanitor();
    await shop.letPass('3653 days');
    const before = log.entries().length;
    const failing = { announce: () => Promise.reject(down) };
    for (const run of ['first', 'second', 'third']) {
      await expect(shop.runJanitor(failing), `${run} run`).rejects.toBe(down);
    }
    // Others' keys may be due by now as well: an entry for each person.
    const kept = await owner.query('select count(distinct subject_id)::integer as persons from vault.restricted_key');
    expect(log.entries()).toHaveLength(before + kept.rows[0].persons);
    await shop.runJanitor();
    expect((await owner.query('select from vault.restricted_key')).rowCount).toBe(0);
  });

  it('counts as done no entry that comes after one that is not, whoever was faster', async () => {
    const [first, second] = [await shop.customer(), await shop.customer()];
    const before = await shop.through();
    await shop
      .erasure({ announce: () => Promise.reject(down) })
      .erase({ subject: customer(first.id) })
      .catch(() => {});
    await shop.erasure().erase({ subject: customer(second.id) });
    expect(await shop.through()).toBe(before);
    expect(await shop.opened(first.keys.contact)).toBe('erased');
    await shop.runJanitor();
    expect(await shop.through()).toBe(before + 2);
  });
});

describe('the second pass', () => {
  it('comes when no cache has the keys, clears what was written meanwhile, and tells consumers once more', async () => {
    const person = await shop.customer();
    await shop.erasure().erase({ subject: customer(person.id) });
    // Somebody had opened the name just before.
    await owner.query(`update shop.customer set name_index = 'late' where id = $1`, [person.id]);
    await shop.letPass('19 minutes');
    await shop.runJanitor();
    expect(await shop.row(person.id)).toMatchObject({ name_index: 'late' });
    await shop.letPass('1 minute');
    expect((await shop.runJanitor())['told']).toBeGreaterThanOrEqual(1);
    expect(await shop.row(person.id)).toMatchObject({ name_index: null, tax_id: expect.any(String) });
    expect(await shop.told(person.id)).toEqual([
      [1, 'contact', 'tax'],
      [2, 'contact', 'tax'],
    ]);
    expect((await shop.runJanitor())['told']).toBe(0);
  });
});

describe('an older backup', () => {
  it('case 48: brings nobody back, before the janitor has looked into the log and after', async () => {
    const [gone, stays] = [await shop.customer(), await shop.customer()];
    const backup = await copyVault(owner);
    const rowsBefore = await owner.query('select * from shop.customer where id = $1', [gone.id]);
    await shop.erasure().erase({ subject: customer(gone.id) });
    await restoreVault(owner, backup);
    const { name, name_index: index } = rowsBefore.rows[0];
    await owner.query('update shop.customer set name = $2, name_index = $3 where id = $1', [gone.id, name, index]);

    expect(await shop.opened(gone.keys.contact)).toBe('erased');
    expect(await shop.opened(gone.keys.tax)).toBe('erased');
    expect(await shop.opened(stays.keys.contact)).toBe('opens');
    await shop.runJanitor();
    expect(await shop.row(gone.id)).toMatchObject({ name: null, name_index: null });
    expect(await shop.through()).toBe(log.entries().length);
    // The bytes are gone here too: also for readers that do not look into the log.
    const { rows } = await owner.query(
      'select count(*)::int as n from vault.subject_key where subject_id = $1 and wrapped is not null',
      [gone.id],
    );
    expect(rows[0].n).toBe(0);
    const { classes } = await shop.erasure().status(customer(gone.id));
    expect(classes.map(({ state }) => state)).toEqual(['erased', 'restricted']);
    expect(await shop.opened(stays.keys.contact)).toBe('opens');
  });

  it('like case 48: brings back nobody who came after it: no key is made, and old values are erased, not unknown', async () => {
    await shop.customer();
    const backup = await copyVault(owner);
    const gone = await shop.customer();
    await shop.erasure().erase({ subject: customer(gone.id) });
    await restoreVault(owner, backup);
    for (const when of ['before', 'after']) {
      if (when === 'after') await shop.runJanitor();
      expect(await shop.opened(gone.keys.contact)).toBe('erased');
      const keys = await shop.keyring().keysToSeal([{ class: 'contact', subject: customer(gone.id) }]);
      expect(keys('contact', customer(gone.id))).toBe('erased');
    }
  });

  it('like case 48: is noticed although somebody else is erased in it before the janitor comes', async () => {
    const [gone, next] = [await shop.customer(), await shop.customer()];
    const backup = await copyVault(owner);
    await shop.erasure().erase({ subject: customer(gone.id) });
    await restoreVault(owner, backup);
    await shop.erasure().erase({ subject: customer(next.id) });
    expect(await shop.opened(gone.keys.contact)).toBe('erased');
    await shop.runJanitor();
    expect(await shop.opened(gone.keys.contact)).toBe('erased');
    expect(await shop.opened(next.keys.contact)).toBe('erased');
  });

  it('like case 48: gives what must be kept no longer than before, and destroys what was destroyed since', async () => {
    const [kept, over] = [await shop.customer(), await shop.customer()];
    const backup = await copyVault(owner);
    const { classes } = await shop.erasure().erase({ subject: customer(kept.id) });
    await shop.erasure().erase({ subject: customer(over.id), since: { tax: new Date('1990-01-01') } });
    await restoreVault(owner, backup);
    await shop.runJanitor();
    expect((await shop.erasure().status(customer(kept.id))).classes).toEqual(classes);
    expect((await shop.erasure().status(customer(over.id))).classes.map(({ state }) => state)).toEqual([
      'erased',
      'erased',
    ]);
  });

  it('like case 48: with a log that is not its own is refused by whoever would erase', async () => {
    const person = await shop.customer();
    const empty: typeof log = {
      ...log,
      list: (prefix, after) => log.list(prefix === 'entry/' ? 'nothing/' : prefix, after),
    };
    await expect(shop.erasure({ log: empty }).erase({ subject: customer(person.id) })).rejects.toMatchObject({
      code: 'ERASURE_NOT_FINISHED',
      cause: expect.objectContaining({ code: 'ERASURE_LOG_DAMAGED' }),
    });
    await shop.erasure().erase({ subject: customer(person.id) });
  });
});
