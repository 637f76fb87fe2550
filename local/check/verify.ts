import type { SentMail } from '../mail-provider/mailbox.ts';
import { type EventFact, type Facts, latenciesOf, type LedgerFact } from './facts.ts';
import { CUSTOMER, type SentInvoice } from './traffic.ts';

export interface Summary {
  readonly committed: number;
  readonly published: number;
  readonly effects: number;
  readonly orderBreaks: number;
  readonly duplicates: number;
  /** Events that analytics counted. */
  readonly counted: number;
  /** Sent by the provider. */
  readonly mails: number;
  /** From commit to effect, milliseconds; null where nothing was applied. */
  readonly medianMs: number | null;
  readonly worstMs: number | null;
  /** Everything that is not as it must be, one sentence each. */
  readonly wrong: readonly string[];
}

/** A mail as the provider has it. */
export type MailFact = Pick<SentMail, 'id' | 'reference' | 'to'>;

/**
 * Holds what stands in the ledger against what was written, twice over: against the outbox's events, folded here without
 * any code of the product, and against what the API told its clients; and the provider's mails against both. Pure.
 */
export function verify(facts: Facts, sent: readonly SentInvoice[], mails: readonly MailFact[]): Summary {
  const byInvoice = Map.groupBy(facts.events, ({ invoiceId }) => invoiceId);
  const ledger = new Map(facts.ledger.map((row) => [row.invoiceId, row]));
  const duplicates = facts.entries.length - new Set(facts.entries.map(({ eventId }) => eventId)).size;
  const breaks = orderBreaks(facts);
  const latencies = latenciesOf(facts.events);
  const published = facts.events.filter(
    ({ deliveries }) => deliveries.length > 0 && deliveries.every((state) => state === 'published'),
  );
  return {
    committed: facts.events.length,
    published: published.length,
    effects: facts.entries.length,
    orderBreaks: breaks.length,
    duplicates,
    mails: mails.length,
    counted: facts.analytics.reduce((sum, { events }) => sum + events, 0),
    medianMs: latencies[Math.floor((latencies.length - 1) / 2)] ?? null,
    worstMs: latencies.at(-1) ?? null,
    wrong: [
      ...breaks,
      ...(duplicates > 0 ? [`${duplicates} effects happened more than once`] : []),
      ...unfinished(facts),
      ...strangers(facts),
      ...leftBehind(facts),
      ...[...byInvoice].flatMap(([id, events]) => againstFold(id, events, ledger.get(id))),
      ...againstDays(facts),
      ...againstMails(facts, mails),
      ...sent.flatMap((invoice) => againstClient(invoice, byInvoice.get(invoice.id) ?? [], ledger.get(invoice.id))),
    ],
  };
}

/** The ledger's lines of one invoice must count up from its first event without a gap, in the order they were applied. */
function orderBreaks({ entries }: Facts): string[] {
  return [...Map.groupBy(entries, ({ invoiceId }) => invoiceId)].flatMap(([id, ofInvoice]) =>
    ofInvoice.flatMap(({ sequence }, index) => {
      const before = ofInvoice[index - 1]?.sequence ?? 0;
      return sequence === before + 1
        ? []
        : [`invoice ${id}: event ${sequence} was applied after ${before || 'nothing'}`];
    }),
  );
}

function unfinished({ events }: Facts): string[] {
  return events.flatMap(({ id, type, deliveries, applied, counted }) => {
    const states = deliveries.join(', ') || 'nowhere';
    if (!applied) return [`${type} ${id} has had no effect (delivery: ${states})`];
    if (!counted) return [`${type} ${id} was not counted by analytics (delivery: ${states})`];
    return deliveries.every((state) => state === 'published')
      ? []
      : [`${type} ${id} was applied but is noted as ${states}`];
  });
}

/** Effects of events that nobody committed. */
function strangers({ events, entries }: Facts): string[] {
  const known = new Set(events.map(({ id }) => id));
  return entries
    .filter(({ eventId }) => !known.has(eventId))
    .map(({ eventId }) => `an effect of event ${eventId}, which is not in the outbox`);
}

/** What was sent is all in order and all known: nothing may stay aside. */
function leftBehind({ held }: Facts): string[] {
  return held.map(({ consumer, eventId, reason }) => `${consumer} holds event ${eventId} as ${reason}`);
}

function againstFold(id: string, events: readonly EventFact[], row: LedgerFact | undefined): string[] {
  if (row === undefined) return [`invoice ${id} is not in the ledger`];
  const folded = { totalMinor: 0, paidMinor: 0, status: '', lastSequence: 0, effects: 0 };
  for (const { type, data, sequence } of events) {
    if (type === 'invoice.issued') Object.assign(folded, { totalMinor: data.totalMinor, status: 'issued' });
    if (type === 'invoice.payment-recorded') {
      folded.paidMinor += data.amountMinor ?? 0;
      folded.status = 'part-paid';
    }
    if (type === 'invoice.paid') folded.status = 'paid';
    folded.lastSequence = sequence;
    folded.effects++;
  }
  return (Object.keys(folded) as (keyof typeof folded)[])
    .filter((field) => folded[field] !== row[field])
    .map((field) => `invoice ${id}: ${field} is ${row[field]} in the ledger, its events say ${folded[field]}`);
}

/** Analytics adds up, in any order: an event that it lost or took twice shows in the sums of its day. */
function againstDays({ events, analytics }: Facts): string[] {
  const said = new Map(analytics.map(({ day, type, ...sums }) => [`${type} on ${day}`, sums]));
  const folded = new Map<string, { events: number; amountMinor: number }>();
  for (const { day, type, data } of events) {
    const sums = folded.get(`${type} on ${day}`) ?? { events: 0, amountMinor: 0 };
    folded.set(`${type} on ${day}`, sums);
    sums.events++;
    sums.amountMinor += (type === 'invoice.payment-recorded' ? data.amountMinor : data.totalMinor) ?? 0;
  }
  return [...new Set([...said.keys(), ...folded.keys()])].flatMap((of) => {
    const [is, must] = [said, folded].map((all) => all.get(of) ?? { events: 0, amountMinor: 0 });
    return is?.events === must?.events && is?.amountMinor === must?.amountMinor
      ? []
      : [
          `${of}: analytics has ${is?.events} of ${is?.amountMinor} together, its events say ${must?.events} of ${must?.amountMinor}`,
        ];
  });
}

/** One mail for each invoice that was issued, at the provider and in the notes of the consumer, and no other. */
function againstMails({ events, notifications }: Facts, mails: readonly MailFact[]): string[] {
  const sent = Map.groupBy(mails, ({ reference }) => reference);
  const noted = Map.groupBy(notifications, ({ invoiceId }) => invoiceId);
  const issued = new Set(events.filter(({ type }) => type === 'invoice.issued').map(({ invoiceId }) => invoiceId));
  return [...new Set([...issued, ...sent.keys(), ...noted.keys()])].flatMap((id) => {
    const ofInvoice = sent.get(id) ?? [];
    const ids = ofInvoice.map((mail) => mail.id);
    const notes = (noted.get(id) ?? []).map(({ mailId }) => mailId);
    const wanted = issued.has(id) ? 1 : 0;
    return [
      ...(ids.length === wanted && notes.length === wanted && ids[0] === notes[0]
        ? []
        : [`invoice ${id}: ${ids.length} mails sent and ${notes.length} noted, ${wanted} must be, under the same id`]),
      ...(ofInvoice.every(({ to }) => to === CUSTOMER.email)
        ? []
        : [`invoice ${id}: a mail went to another address than the customer's`]),
    ];
  });
}

function againstClient(invoice: SentInvoice, events: readonly EventFact[], row: LedgerFact | undefined): string[] {
  const { id, totalMinor, paidMinor, payments } = invoice;
  const settled = paidMinor === totalMinor ? 1 : 0;
  const expected = 1 + payments + settled;
  return [
    ...(events.length === expected ? [] : [`invoice ${id}: ${events.length} events, the API accepted ${expected}`]),
    ...(row?.totalMinor === totalMinor && row.paidMinor === paidMinor
      ? []
      : [
          `invoice ${id}: the ledger has ${row?.paidMinor} of ${row?.totalMinor} paid, the API said ${paidMinor} of ${totalMinor}`,
        ]),
  ];
}
