-- What the consumer `analytics` counts, from events alone. Like the ledger it may live in another database than the invoices.
--
--   sample_analytics  counts; sees none of the other tables
do $$
begin
  if not exists (select from pg_roles where rolname = 'sample_analytics') then
    create role sample_analytics nologin;
  end if;
end
$$;

set local role sample_owner;
grant usage on schema sample to sample_analytics;

-- One row for each day (UTC, of the event's own time), type and currency. Sums do not depend on the order of events; that
-- each comes once is the inbox's promise: a repeat would be counted twice and show.
create table sample.analytics_day (
  day          date not null,
  type         text not null,
  currency     text not null check (currency ~ '^[A-Z]{3}$'),
  events       bigint not null check (events > 0),
  amount_minor numeric(40, 0) not null,        -- a sum of many amounts of 2^53 - 1
  primary key (day, type, currency)
) with (fillfactor = 70);

grant select, insert, update on sample.analytics_day to sample_analytics;
