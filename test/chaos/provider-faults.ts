import { setTimeout as delay } from 'node:timers/promises';
import type { MailProvider } from '../../local/mail-provider/server.ts';
import { between, deck, type Random } from './random.ts';

/** What the provider of mails does wrong. It acts before it hangs, drops or is late. */
export const PROVIDER_FAULTS = ['fail', 'act-and-hang', 'act-and-drop', 'late', 'lookup-fails'] as const;

export interface ProviderFaultsOptions {
  readonly provider: MailProvider;
  readonly random: Random;
  /** Average time between two faults, milliseconds. */
  readonly everyMs: number;
  readonly injected: (kind: string) => void;
  readonly signal: AbortSignal;
}

/** Lets one request after the other go wrong until the signal; counts a fault when a request has met it. */
export async function runProviderFaults(options: ProviderFaultsOptions): Promise<void> {
  const { provider, random, everyMs, injected, signal } = options;
  const deal = deck(random, PROVIDER_FAULTS);
  while (!signal.aborted) {
    const kind = deal();
    const asked = (): number => (kind === 'lookup-fails' ? provider.lookups() : provider.requests().length);
    const before = asked();
    provider.plan(kind);
    // A look-up comes only after a call without an answer.
    if (kind === 'lookup-fails') provider.plan('act-and-drop');
    while (!signal.aborted && asked() === before) await delay(20);
    if (asked() > before) injected(providerFault(kind));
    await delay(everyMs * between(random, 0.5, 1.5), undefined, { signal }).catch(() => {});
    provider.release();
  }
  provider.release();
}

export function providerFault(kind: (typeof PROVIDER_FAULTS)[number]): string {
  return `provider: ${kind}`;
}
