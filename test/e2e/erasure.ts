import { describe, expect, it } from 'vitest';
import type { LocalCloud } from '../../local/cloud.ts';
import { type Customer, customersOf } from './customers.ts';
import { until } from './until.ts';
import { command } from './watching.ts';

/** Searching for customers and erasing them. The last tests of a cloud: that somebody was erased goes to one consumer only, and the others' checks wait for all. */
export function erasureTests(cloud: LocalCloud): void {
  const { apiUrl } = cloud;
  const { rows, one, customer, isKnownEverywhere, mailedTo, found, shown } = customersOf(cloud);
  const isGoneEverywhere = async (of: Customer): Promise<void> => {
    expect(await found(of)).toEqual([]);
    const { customer: seen, withheld } = await shown(of);
    expect(seen).toMatchObject({ name: null, email: null, address: null });
    expect(withheld).toContainEqual({ pointer: '/customer/email', because: 'erased' });
    await until(
      'notifications forget the recipient',
      async () => ((await mailedTo(of)) === null ? true : undefined),
      30_000,
    );
    // Sealed, the ledger keeps the name; nothing opens it any more.
    const { open } = await one(
      `select count(*)::integer as open from vault.subject_key where subject_id = $1 and wrapped is not null`,
      of.id,
    );
    expect(open).toBe(0);
  };

  describe('a customer', () => {
    it('is found by e-mail, and after DELETE /customers/{id} by nobody and nowhere', async () => {
      const [erased, other] = [await customer(), await customer()];
      expect(await found(erased)).toEqual([erased.invoice]);
      expect(await shown(erased)).toMatchObject({ customer: { email: erased.email } });
      await isKnownEverywhere(erased);
      const answer = await fetch(`${apiUrl}/customers/${erased.id}`, { method: 'DELETE' });
      expect(answer.status).toBe(200);
      expect(await answer.json()).toMatchObject({ outcome: 'done' });
      await isGoneEverywhere(erased);
      expect(await found(other)).toEqual([other.invoice]);
    });

    it('is erased by an operator likewise, and the audit keeps who and why, and not whom', async () => {
      const erased = await customer();
      await isKnownEverywhere(erased);
      const words = ['erase', 'customer', erased.id, '--reason', 'asked for by letter, DPO-7'];
      expect(await command('ops', ...words)).toMatchObject({ code: 2, stdout: '' });
      expect(await found(erased)).toEqual([erased.invoice]);
      const done = await command('ops', ...words, '--yes', '--json');
      expect(done.code, done.stderr).toBe(0);
      expect(JSON.parse(done.stdout)).toMatchObject({ ok: true, result: { outcome: 'done' } });
      await isGoneEverywhere(erased);
      const acts = await rows(`select * from outbox.operator_act where command in ('erase', 'erasures show')`);
      expect(acts.map((act) => (act as { command: string }).command)).toEqual(['erasures show', 'erase']);
      expect(JSON.stringify(acts)).not.toContain(erased.id);
    });
  });
}
