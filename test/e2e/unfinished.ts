import type { LambdaClient } from '@aws-sdk/client-lambda';
import { describe, expect, it } from 'vitest';
import type { LocalCloud } from '../../local/cloud.ts';
import { customersOf } from './customers.ts';
import { damageKey, keepColumn } from './janitor-troubles.ts';
import { type Clients, command, watchAlarms } from './watching.ts';

/** So many at once are more than the local alarm allows. */
const AT_ONCE = 2;

/** Keys and erasures that the janitor cannot finish. */
export function unfinishedTests(cloud: LocalCloud, clients: Clients & { readonly lambda: LambdaClient }): void {
  const { one, customer, isKnownEverywhere, found, shown, erase } = customersOf(cloud);

  describe.concurrent('what the janitor cannot finish', () => {
    it('raises the alarms on keys and erasures, and that on many erasures at once, until the key of a person is brought back and a column lets go', async () => {
      const { seen, ended } = await watchAlarms(cloud, clients);
      const standing = await customer();
      await isKnownEverywhere(standing);
      const { bringBack } = await damageKey(cloud, clients.lambda, standing.id);
      const rotations = ['rewrap-lag', 'index-rotation-lag'];
      const erasures = ['erasures-unapplied', 'prune-lag-erasure'];
      const eraseMany = async (): Promise<void> => {
        const enough = new AbortController();
        const many = seen('erasure-rate')().then(() => enough.abort());
        const asking = async (): Promise<void> => {
          while (!enough.signal.aborted) {
            const persons = await Promise.all(Array.from({ length: AT_ONCE }, customer));
            const statuses = await Promise.all(persons.map(erase));
            // Recorded, and not done.
            expect(new Set(statuses)).toEqual(new Set([503]));
          }
        };
        await Promise.all([many, asking(), seen(...erasures)()]);
      };
      const rotating = async (): Promise<void> => {
        try {
          await seen(...rotations)();
        } finally {
          await bringBack();
        }
      };
      await Promise.all([rotating(), keepColumn(cloud, eraseMany)]);
      await ended(...rotations, ...erasures, 'erasure-rate');
      expect(await one('select count(*)::integer as left from vault.erasure_request')).toEqual({ left: 0 });

      const { stdout } = await command('ops', 'keys', 'list', '--json');
      const keys = (JSON.parse(stdout) as { result: { keys: Record<string, unknown>[] } }).result.keys;
      const states = keys.map(({ key, class: of, version, state }) => [key, of, version, state].join(' '));
      expect(states).toEqual(
        expect.arrayContaining(['branch contact 2 active', 'index customer-email contact 2 active']),
      );
      expect(states.filter((state) => /contact 1 (retired|active)/.test(state))).toEqual([]);
      expect(await found(standing)).toEqual([standing.invoice]);
      expect(await shown(standing)).toMatchObject({ customer: { email: standing.email } });
    });
  });
}
