-- The ledger's read model of invoices, kept by the consumer `ledger` from events alone. It may live in another database
-- than the invoices: nothing here refers to their tables.
set local role sample_owner;

create table sample.ledger_invoice (
  invoice_id    uuid primary key,
  currency      text not null check (currency ~ '^[A-Z]{3}$'),
  total_minor   bigint not null check (total_minor > 0),
  paid_minor    bigint not null default 0 check (paid_minor >= 0),
  status        text not null check (status in ('issued', 'part-paid', 'paid')),
  last_sequence bigint not null,               -- of the event applied last
  effects       integer not null default 1     -- events applied
);

-- One row for each event applied, in the order of application. There is deliberately no unique constraint on the event: that each comes
-- once is the inbox's promise, and whoever checks that promise must be able to see it broken.
create table sample.ledger_entry (
  entry        bigint generated always as identity primary key,
  event_id     uuid not null,
  invoice_id   uuid not null,
  sequence     bigint not null,
  kind         text not null check (kind in ('issued', 'payment', 'paid')),
  amount_minor bigint not null check (amount_minor >= 0),
  applied_at   timestamptz not null default clock_timestamp()
);
create index ledger_entry_invoice on sample.ledger_entry (invoice_id, entry);

grant select, insert on sample.ledger_entry to sample_ledger;
grant select, insert, update on sample.ledger_invoice to sample_ledger;
