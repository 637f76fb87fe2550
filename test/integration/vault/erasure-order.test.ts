import { beforeEach, describe, expect, it } from 'vitest';
import { testDatabase } from '../../support/database.ts';
import { erasingShop } from '../../support/erasures.ts';

const database = await testDatabase();
const shop = await erasingShop(database);
const { owner, log, options } = shop;
const customer = (id: string) => ({ kind: 'customer', id });

beforeEach(() => {
  log.beforeCreate = () => Promise.resolve();
  log.afterCreate = () => Promise.resolve();
});

/** What the database has of a person: keys that open, keys that are kept, requests, and whether it has told anybody. */
async function standing(id: string): Promise<Record<string, unknown>> {
  const count = (what: string) => `(select count(*)::int from ${what} and subject_id = $1)`;
  const { rows } = await owner.query(
    `select ${count('vault.subject_key where wrapped is not null')} as open,
            ${count('vault.restricted_key where true')} as kept,
            ${count('vault.erasure_request where true')} as asked,
            (select count(*)::int from vault.erasure) as done,
            (select name is not null from shop.customer where id = $1) as named,
            (select tax_id is not null from shop.customer where id = $1) as taxed`,
    [id],
  );
  return { ...rows[0], told: (await shop.told(id)).length };
}

/** What stood in the database when an entry with a key of the person had just been written. */
function whenWritten({ id, keys }: Awaited<ReturnType<typeof shop.customer>>): Record<string, unknown>[] {
  const seen: Record<string, unknown>[] = [];
  log.afterCreate = async (name) => {
    const entry = Buffer.from(log.files.get(name) ?? []).toString();
    if (Object.values(keys).some(({ keyId }) => entry.includes(keyId))) seen.push(await standing(id));
  };
  return seen;
}

describe('the log comes before the database', () => {
  const done = async (): Promise<number> => (await owner.query('select from vault.erasure')).rowCount ?? 0;

  it.each<[what: string, erase: (id: string) => Promise<unknown>]>([
    ['at once', (id) => shop.erasure().erase({ subject: customer(id) })],
    [
      'after a delay, by the janitor',
      async (id) => {
        await shop.erasure({ delaySeconds: 60 }).erase({ subject: customer(id) });
        await shop.letPass('2 minutes');
        await shop.runJanitor();
      },
    ],
    [
      'after a delay, by whoever asks again',
      async (id) => {
        const erasure = shop.erasure({ delaySeconds: 60 });
        await erasure.erase({ subject: customer(id) });
        await shop.letPass('2 minutes');
        await erasure.erase({ subject: customer(id) });
      },
    ],
  ])('where a person is erased %s', async (_, erase) => {
    const person = await shop.customer();
    const { id } = person;
    const before = await done();
    const seen = whenWritten(person);
    await erase(id);
    expect(seen).toEqual([{ open: 2, kept: 0, asked: 2, done: before, named: true, taxed: true, told: 0 }]);
    const after = { open: 0, kept: 1, asked: 0, done: before + 1, named: false, taxed: true, told: 1 };
    expect(await standing(id)).toEqual(after);
  });

  it('where what had to be kept is destroyed', async () => {
    const person = await shop.customer();
    const { id } = person;
    await shop.erasure().erase({ subject: customer(id) });
    const seen = whenWritten(person);
    await shop.letPass('3653 days');
    await shop.runJanitor();
    expect(seen).toMatchObject([{ kept: 1, taxed: true }]);
    expect(await standing(id)).toMatchObject({ kept: 0, taxed: false });
  });

  it('and where writing it fails, the database has nothing of it but the request', async () => {
    const { id, keys } = await shop.customer();
    const before = await standing(id);
    log.beforeCreate = () => Promise.reject(new Error('the bucket is away'));
    await shop
      .erasure()
      .erase({ subject: customer(id) })
      .catch(() => {});
    expect(await standing(id)).toEqual({ ...before, asked: 2 });
    expect(await shop.opened(keys.contact)).toBe('opens');
    log.beforeCreate = () => Promise.resolve();
    await shop.runJanitor();
  });

  it('a cancelled request never comes into it, and one that is being written is too late to cancel', async () => {
    const [cancelled, late] = [await shop.customer(), await shop.customer()];
    const erasure = shop.erasure({ delaySeconds: 60 });
    const entries = log.entries().length;
    await erasure.erase({ subject: customer(cancelled.id) });
    expect(await erasure.cancel(customer(cancelled.id))).toEqual(['contact', 'tax']);
    await erasure.erase({ subject: customer(late.id) });
    await shop.letPass('2 minutes');
    const answers: unknown[] = [];
    log.beforeCreate = async (name) => {
      if (name.startsWith('entry/')) answers.push(await erasure.cancel(customer(late.id)));
    };
    await shop.runJanitor();
    expect(answers).toEqual([[]]);
    expect(log.entries()).toHaveLength(entries + 1);
    expect(await standing(cancelled.id)).toMatchObject({ open: 2, kept: 0, asked: 0, told: 0 });
    expect(await standing(late.id)).toMatchObject({ open: 0, kept: 1, asked: 0, told: 1 });
  });
});

describe('whoever cancels and whoever erases come one after the other', () => {
  const lock = 'begin; select from vault.erasure_position for update';
  // As the login whose sessions they are: others are not told what a session waits for.
  const waiting = async (): Promise<number> => {
    const { rows } = await options.pool.query(
      `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
    );
    return rows.length;
  };

  it('a cancellation that has to wait until the time is over is too late, and says so', async () => {
    const person = await shop.customer();
    const erasure = shop.erasure({ delaySeconds: 60 });
    await erasure.erase({ subject: customer(person.id) });
    const other = await database.client('sealed_eraser');
    await other.query(lock);
    const cancelling = erasure.cancel(customer(person.id));
    await expect.poll(waiting).toBe(1);
    await shop.letPass('2 minutes');
    await other.query('commit');
    expect(await cancelling).toEqual([]);
    await shop.runJanitor();
    expect(await shop.opened(person.keys.contact)).toBe('erased');
  });

  it('a cancellation that was in time holds, although the janitor comes before it has ended', async () => {
    const person = await shop.customer();
    await shop.erasure({ delaySeconds: 60 }).erase({ subject: customer(person.id) });
    await shop.letPass('2 minutes');
    const entries = log.entries().length;
    // What a cancellation does that found the request not due, and is slow to commit.
    const other = await database.client('sealed_eraser');
    await other.query(lock);
    await other.query('delete from vault.erasure_request where subject_id = $1', [person.id]);
    const erasing = shop.runJanitor();
    await expect.poll(waiting).toBe(1);
    await other.query('commit');
    await erasing;
    expect(log.entries()).toHaveLength(entries);
    expect(await shop.opened(person.keys.contact)).toBe('opens');
  });
});
