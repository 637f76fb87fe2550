import { createHash } from 'node:crypto';
import type pg from 'pg';
import type { SentMail } from '../../local/mail-provider/mailbox.ts';
import { CONSUMERS, type ConsumerName, consumersOf, MODES } from './catalogue.ts';
import { rows } from './paged-rows.ts';
import type { Failed, Verdict } from './verdict.ts';

/** What the effects are held against, beside the database. */
export interface EffectsTruth {
  /** `consumer id` of the events that an operator left out. */
  readonly skipped: ReadonlySet<string>;
  /** What the provider did, by key, and for which event. */
  readonly mails: readonly Pick<SentMail, 'id' | 'reference'>[];
}

/** Once per event and consumer: by the table where each handler writes a row. */
export async function judgeEffects(
  db: pg.Client,
  { skipped }: EffectsTruth,
  verdict: Verdict,
  examples: string[],
): Promise<void> {
  await db.query('create temp table skipped (consumer text, event_id uuid, primary key (consumer, event_id))');
  const pairs = [...skipped].map((pair) => pair.split(' '));
  await db.query('insert into skipped select * from unnest($1::text[], $2::uuid[])', [
    pairs.map(([consumer]) => consumer),
    pairs.map(([, id]) => id),
  ]);
  const modes = (...wanted: string[]): string[] => CONSUMERS.filter((name) => wanted.includes(MODES[name]));
  const { rows: counted } = await db.query(
    `with effects as (select consumer, event_id, count(*) as times from effect group by consumer, event_id)
     select (select coalesce(sum(times - 1), 0) from effects)::integer as twice,
            (select count(*) from (
               select sequence < max(sequence) over (partition by consumer, aggregate_id order by place) as late
                 from effect where consumer = any ($1)) o where late)::integer as out_of_order`,
    [modes('strict', 'latest')],
  );
  verdict.effectsTwice = counted[0].twice;
  verdict.effectsOutOfOrder = counted[0].out_of_order;
  const { rows: missing } = await db.query(
    `select t.name, e.aggregate_id, e.sequence, e.data ->> 'fault' as fault, count(*) over ()::integer as all
       from outbox.delivery d
       join outbox.destination t on t.number = d.destination
       join outbox.event e on e.id = d.event_id
      where d.replay = 0 and t.name = any ($1)
        and not exists (select from effect f where f.consumer = t.name and f.event_id = d.event_id)
        and not exists (select from skipped s where s.consumer = t.name and s.event_id = d.event_id)
      order by d.position limit 3`,
    [modes('strict', 'any')],
  );
  verdict.effectsMissing = missing[0]?.all ?? 0;
  for (const { name, aggregate_id, sequence, fault } of missing) {
    examples.push(`effectsMissing: ${name} ${aggregate_id}#${sequence}${fault === null ? '' : ` (${fault})`}`);
  }
}

interface Model {
  events: number;
  total: number;
  digest: string;
  last: string;
  amount: number;
}

/** What of a read model must be right follows from the mode: the last state, the set, or the set in its order. */
const COMPARED: Readonly<Record<string, readonly (keyof Model)[]>> = {
  latest: ['last', 'amount'],
  any: ['events', 'total'],
  strict: ['events', 'total', 'digest', 'last', 'amount'],
};

/** Folds the event table for each consumer, and compares. */
export async function judgeReadModels(db: pg.Client, { skipped }: EffectsTruth, failed: Failed): Promise<void> {
  const built = new Map<string, Model>();
  for await (const row of rows(
    db,
    'select consumer, aggregate_id, events, total, digest, last, amount from read_model',
  )) {
    built.set(`${row.consumer} ${row.aggregate_id}`, {
      events: Number(row.events),
      total: Number(row.total),
      digest: row.digest,
      last: row.last,
      amount: Number(row.amount),
    });
  }
  const folded = new Map<ConsumerName, Model>();
  let aggregate: string | undefined;
  const compare = (): void => {
    for (const [consumer, model] of folded) {
      const found = built.get(`${consumer} ${aggregate}`);
      built.delete(`${consumer} ${aggregate}`);
      const wrong = COMPARED[MODES[consumer]]?.filter((part) => found?.[part] !== model[part]) ?? [];
      if (wrong.length === 0) continue;
      failed(
        'readModelsWrong',
        () =>
          `${consumer} ${aggregate}: ${wrong.map((part) => `${part} is ${found?.[part]}, not ${model[part]}`).join(', ')}`,
      );
    }
    folded.clear();
  };
  const events = rows(
    db,
    `select id, type, aggregate_id, (data ->> 'amount')::integer as amount from outbox.event
      order by aggregate_type, aggregate_id, sequence`,
  );
  for await (const { id, type, aggregate_id, amount } of events) {
    if (aggregate_id !== aggregate) compare();
    aggregate = aggregate_id;
    for (const consumer of consumersOf(type)) {
      if (skipped.has(`${consumer} ${id}`)) continue;
      const { events: before, total, digest } = folded.get(consumer) ?? { events: 0, total: 0, digest: '' };
      folded.set(consumer, {
        events: before + 1,
        total: total + amount,
        digest: createHash('md5')
          .update(digest + id)
          .digest('hex'),
        last: id,
        amount,
      });
    }
  }
  compare();
  for (const left of built.keys()) failed('readModelsWrong', () => `${left}: there is no such event`);
}

/** Each event that was applied has one act at the provider, by key, and knows its answer; no event without a delivery has one. */
export async function judgeCalls(db: pg.Client, { mails, skipped }: EffectsTruth, failed: Failed): Promise<void> {
  const byEvent = new Map<string, string[]>();
  for (const { id, reference } of mails) byEvent.set(reference, [...(byEvent.get(reference) ?? []), id]);
  const applied = rows(
    db,
    `select e.id, f.mail from outbox.event e left join effect f on f.consumer = 'notifications' and f.event_id = e.id
      where e.type = 'account.alerted'`,
  );
  const due = new Set<string>();
  for await (const { id, mail } of applied) {
    due.add(id);
    const sent = byEvent.get(id) ?? [];
    if (sent.length > 1) failed('callsTwice', () => `${id}: ${sent.length} mails`);
    if (skipped.has(`notifications ${id}`)) continue;
    if (mail === null || !sent.includes(mail))
      failed('callsMissing', () => `${id}: ${mail ?? 'no effect'}, ${sent.length} mails`);
  }
  for (const reference of byEvent.keys()) if (!due.has(reference)) failed('callsWithoutEvent', () => reference);
}
