import type { Queryable } from '../../shared/database/index.ts';
import type { ReceivedEvent } from '../../shared/events/index.ts';
import type { ConsumerName } from './catalogue.ts';

/** What is in each event of a run. */
export interface AccountData {
  readonly text?: string;
  readonly amount: number;
  readonly fault?: 'fails' | 'hangs' | 'poison' | 'dead';
}

export type AccountEvent = ReceivedEvent<string, AccountData>;

/**
 * Where the effects go. A second effect of one event is not refused but seen by the verdict; a read model keeps what it would be wrong about:
 * how many events, their sum, and a digest that no other order gives.
 */
export const READ_MODELS = `
  create table effect (
    place bigint generated always as identity primary key,
    consumer text not null, event_id uuid not null, aggregate_id text not null, sequence bigint not null,
    mail text
  );
  create table read_model (
    consumer text not null, aggregate_id text not null,
    events bigint not null, total bigint not null, digest text not null, last uuid not null, amount bigint not null,
    primary key (consumer, aggregate_id)
  );
  -- What handlers remember although their transactions are rolled back (replay 0: live), and what has been mended.
  create table handler_fault (consumer text, event_id uuid, replay integer, times integer not null, primary key (consumer, event_id, replay));
  create table mended (consumer text, event_id uuid, primary key (consumer, event_id));
  grant select, insert on effect to sealed_ledger;
  grant select, insert, update on read_model, handler_fault to sealed_ledger;
  grant select on mended to sealed_ledger`;

/** The effect of one event, in the consumer's transaction. */
export async function writeEffect(
  tx: Queryable,
  consumer: ConsumerName,
  event: AccountEvent,
  mail?: string,
): Promise<void> {
  await tx.query(
    `with e as (
       insert into effect (consumer, event_id, aggregate_id, sequence, mail) values ($1, $2, $3, $4, $6))
     insert into read_model as m (consumer, aggregate_id, events, total, digest, last, amount)
     values ($1, $3, 1, $5, md5($2::uuid::text), $2, $5)
     on conflict (consumer, aggregate_id) do update
       set events = m.events + 1, total = m.total + excluded.total, digest = md5(m.digest || excluded.last::text),
           last = excluded.last, amount = excluded.amount`,
    [consumer, event.id, event.aggregateId, event.sequence.toString(), event.data.amount, mail ?? null],
  );
}

/** Takes back what a consumer did with an aggregate, or with all, as whoever resets it must. */
export async function removeEffects(
  db: Queryable,
  consumer: ConsumerName,
  aggregateId: string | undefined,
): Promise<void> {
  await db.query(
    `with e as (delete from effect where consumer = $1 and ($2::text is null or aggregate_id = $2))
     delete from read_model where consumer = $1 and ($2::text is null or aggregate_id = $2)`,
    [consumer, aggregateId ?? null],
  );
}
