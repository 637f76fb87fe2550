import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import type { LocalCloud } from '../cloud.ts';
import { asSuperuser } from '../postgres.ts';
import type { Report } from '../report.ts';
import { countUnfinished, latenciesOf, readFacts } from './facts.ts';
import { exposures } from './personal-data.ts';
import { sendInvoice, sendTraffic, type TrafficPlan } from './traffic.ts';
import { type MailFact, type Summary, verify } from './verify.ts';

const PLANS: Readonly<Record<'sample' | 'check', TrafficPlan>> = {
  sample: { invoices: 3, lanes: 2 },
  check: { invoices: 20, lanes: 4 },
};

/** Single invoices, each sent when the one before has arrived: how long the way takes when nothing else is going on. */
const IDLE_INVOICES = 7;

/** Far longer than it takes; then what is missing is named. */
const ARRIVES_WITHIN_MS = 60_000;

/** Sends traffic, waits for its effects, checks every one and prints what it found. True when all is as it must be. */
export async function runCheck(cloud: LocalCloud, report: Report, kind: 'sample' | 'check'): Promise<boolean> {
  const { summary, requests, repeats, idleMs } = await report.step(
    kind === 'check' ? 'Traffic, every effect checked' : 'Sample traffic',
    () => checkTraffic(cloud, PLANS[kind], kind === 'check' ? IDLE_INVOICES : 1),
  );
  for (const line of format(summary, requests, repeats, idleMs)) report.line(line);
  return summary.wrong.length === 0;
}

interface Checked {
  readonly summary: Summary;
  readonly requests: number;
  readonly repeats: number;
  /** From commit to effect while idle, ascending. */
  readonly idleMs: readonly number[];
}

export async function checkTraffic(cloud: LocalCloud, plan: TrafficPlan, idleInvoices: number): Promise<Checked> {
  return asSuperuser(cloud.database, cloud.database.name, async (db) => {
    const traffic = await sendTraffic(cloud.apiUrl, plan);
    await arrival(db);
    const single: string[] = [];
    for (let sent = 0; sent < idleInvoices; sent++) {
      single.push(await sendInvoice(cloud.apiUrl));
      if (!(await arrival(db))) break;
    }
    const facts = await readFacts(db);
    const summary = verify(facts, traffic.invoices, await sentMails(cloud.mailProviderUrl));
    const idleMs = latenciesOf(facts.events.filter(({ invoiceId }) => single.includes(invoiceId)));
    const exposed = await exposures(db, cloud.apiUrl, traffic.invoices[0]?.id ?? single[0]);
    const { requests, repeats, wrong } = traffic;
    return {
      summary: { ...summary, wrong: [...wrong, ...summary.wrong, ...exposed] },
      requests: requests + single.length,
      repeats,
      idleMs,
    };
  });
}

/** All that the provider has ever sent, as it says itself. */
async function sentMails(providerUrl: string): Promise<readonly MailFact[]> {
  const response = await fetch(`${providerUrl}/mails`);
  return ((await response.json()) as { mails: MailFact[] }).mails;
}

/** Waits until every event has arrived. False where the time was not enough. */
export async function arrival(db: pg.Client, withinMs = ARRIVES_WITHIN_MS): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while ((await countUnfinished(db)) > 0) {
    if (performance.now() > deadline) return false;
    await delay(50);
  }
  return true;
}

/** At most so many faults are printed; the count is always right. */
const SHOWN = 20;

function format(summary: Summary, requests: number, repeats: number, idleMs: readonly number[]): string[] {
  const { committed, published, effects, counted, mails, orderBreaks, duplicates, medianMs, worstMs, wrong } = summary;
  const idle = idleMs[Math.floor((idleMs.length - 1) / 2)];
  const ms = (value: number | null | undefined): string =>
    typeof value !== 'number' ? 'unknown' : `${Math.round(value)} ms`;
  return [
    '',
    `  requests            ${requests}, of them ${repeats} repeats of an idempotency key`,
    `  events committed    ${committed}`,
    `  events published    ${published}`,
    `  effects             ${effects} in the ledger (SQS FIFO), ${counted} in analytics (EventBridge), ${mails} mails (SQS)`,
    `  order breaks        ${orderBreaks}`,
    `  duplicate effects   ${duplicates}`,
    `  commit to effect    median ${ms(medianMs)}, worst ${ms(worstMs)}; while idle median ${ms(idle)}, worst ${ms(idleMs.at(-1))}`,
    ...(wrong.length === 0
      ? ['  personal data       sealed in every table, masked in answers', '  every effect is as it was written']
      : [`  ${wrong.length} faults:`, ...wrong.slice(0, SHOWN).map((fault) => `    ${fault}`)]),
    ...(wrong.length > SHOWN ? [`    and ${wrong.length - SHOWN} more`] : []),
  ];
}
