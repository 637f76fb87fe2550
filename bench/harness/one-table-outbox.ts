/**
 * The outbox that most services start with, to compare with: one table, payload and state in one row, a partial index over what is
 * not yet processed, and an update when it is.
 */
export const ONE_TABLE_OUTBOX = `
  create table one_table_outbox (
    id             uuid primary key,
    aggregate_type text not null,
    aggregate_id   text not null,
    type           text not null,
    payload        jsonb not null,
    created_at     timestamptz not null default now(),
    processed_at   timestamptz
  );
  create index on one_table_outbox (created_at) where processed_at is null;
  grant select, insert, update on one_table_outbox to sealed_writer`;

export const BARE_INSERT =
  'insert into one_table_outbox (id, aggregate_type, aggregate_id, type, payload) values ($1, $2, $3, $4, $5)';
