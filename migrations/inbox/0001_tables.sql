-- The consuming side. It may live in another database than the outbox.
--
--   inbox_owner     owns the tables; nobody logs in as it
--   inbox_consumer  applies events: dedupe rows, positions, held events
do $$
declare
  name text;
begin
  foreach name in array array['inbox_owner', 'inbox_consumer'] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I nologin', name);
    end if;
  end loop;
  if not pg_has_role(current_user, 'inbox_owner', 'set') then
    execute format('grant inbox_owner to %I with inherit true, set true', current_user);
  end if;
  execute format('grant create on database %I to inbox_owner', current_database());
end
$$;

create schema inbox authorization inbox_owner;

set local role inbox_owner;
alter default privileges for role inbox_owner revoke execute on functions from public;
grant usage on schema inbox to inbox_consumer;

-- Who consumes, and how. Mode and starting point belong to the consumer, not to a call.
create table inbox.consumer (
  name            text primary key check (name ~ '^[a-z][a-z0-9-]{0,62}$'),
  mode            text not null check (mode in ('any', 'latest', 'strict')),
  starting_point  text not null check (starting_point in ('beginning', 'first-seen')),
  generation      integer not null default 1,     -- raised by a reset
  replay_accepted integer not null default 0,     -- the replay whose messages it applies; 0: none
  created_at      timestamptz not null default now()
);

-- An event's effect is in the same transaction as this row: once, however often the message comes.
create table inbox.processed_event (
  consumer   text not null,
  event_id   uuid not null,
  event_time timestamptz not null,                -- the event's own time; pruned by it
  primary key (consumer, event_id)
) with (autovacuum_vacuum_insert_scale_factor = 0.05);

-- How far each aggregate has come. Never pruned.
create table inbox.stream_position (
  consumer       text not null,
  aggregate_type text not null,
  aggregate_id   text not null,
  sequence       bigint not null,
  primary key (consumer, aggregate_type, aggregate_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- Messages that wait here instead of in the queue: early, late, failing, poison.
create table inbox.held_event (
  consumer       text not null,
  event_id       uuid not null,
  aggregate_type text not null,
  aggregate_id   text not null,
  sequence       bigint not null,
  reason         text not null check (reason in ('gap', 'late', 'failing', 'blocked', 'unknown-type', 'unknown-version', 'too-old', 'denied', 'replay')),
  body           text not null,                   -- the message as it came
  attempts       integer not null default 0,
  last_error     text,
  held_at        timestamptz not null default now(),
  primary key (consumer, event_id)
);
create index held_event_stream on inbox.held_event (consumer, aggregate_type, aggregate_id, sequence);

-- Calls of other systems: reserved before, recorded after, so that a retry asks first.
create table inbox.external_call (
  consumer        text not null,
  event_id        uuid not null,
  name            text not null,
  idempotency_key text not null,
  state           text not null default 'reserved' check (state in ('reserved', 'done', 'held')),
  response        text,
  updated_at      timestamptz not null default now(),
  primary key (consumer, event_id, name)
);

grant select, insert on inbox.consumer, inbox.processed_event to inbox_consumer;
grant select, insert, update on inbox.stream_position to inbox_consumer;
grant select, insert, update, delete on inbox.held_event, inbox.external_call to inbox_consumer;
