-- The sample service: invoices and their payments, and the answers to requests that may be repeated.
--
--   sample_owner    owns the tables; nobody logs in as it
--   sample_api      writes invoices and payments
--   sample_ledger   keeps the read model that a consumer builds from events; sees none of these tables
do $$
declare
  name text;
begin
  foreach name in array array['sample_owner', 'sample_api', 'sample_ledger'] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I nologin', name);
    end if;
  end loop;
  if not pg_has_role(current_user, 'sample_owner', 'set') then
    execute format('grant sample_owner to %I with inherit true, set true', current_user);
  end if;
  execute format('grant create on database %I to sample_owner', current_database());
end
$$;

create schema sample authorization sample_owner;

set local role sample_owner;
alter default privileges for role sample_owner revoke execute on functions from public;
grant usage on schema sample to sample_api, sample_ledger;

-- Money is a whole number of minor units, at most 2^53 - 1: JSON and JavaScript keep it exact up to there.
create table sample.invoice (
  id          uuid primary key,
  customer_id uuid not null,
  currency    text not null check (currency ~ '^[A-Z]{3}$'),
  total_minor bigint not null check (total_minor between 1 and 9007199254740991),
  paid_minor  bigint not null default 0 check (paid_minor between 0 and total_minor),
  lines       json not null,
  due_on      date not null,
  issued_at   timestamptz not null default now()
);

create table sample.payment (
  id           uuid primary key,
  invoice_id   uuid not null references sample.invoice,
  amount_minor bigint not null check (amount_minor between 1 and 9007199254740991),
  recorded_at  timestamptz not null default now()
);
create index payment_invoice on sample.payment (invoice_id);

-- One row per idempotency key, written in the transaction of its effect. Status and body are null only inside that transaction.
create table sample.idempotency (
  key            text primary key check (key ~ '^[!-~]{1,255}$'),
  request_sha256 bytea not null check (octet_length(request_sha256) = 32),  -- of method, path and body
  status         smallint,
  location       text,
  body           json,                                                    -- as it was sent
  created_at     timestamptz not null default now()
);

grant select, insert on sample.invoice, sample.payment, sample.idempotency to sample_api;
grant update (paid_minor) on sample.invoice to sample_api;
grant update (status, location, body) on sample.idempotency to sample_api;
