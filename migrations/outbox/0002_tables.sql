set local role outbox_owner;

-- What the deployment knows: one row.
create table outbox.installation (
  singleton boolean primary key default true check (singleton),
  source    text not null default '/outbox',      -- CloudEvents source of every event written here
  cluster   text,                                 -- identity of the database cluster, as configured at deployment
  epoch     integer not null default 0 check (epoch between 0 and 4194303)  -- raised by a restore: the high bits of new sequences
);
insert into outbox.installation default values;

-- The catalogue, as installed by the deployment. Types and versions are added and changed, never removed:
-- events of them are still in tables and queues, and older code may still write them.
create table outbox.event_type (
  type           text not null check (type ~ '^[a-z][a-z0-9.-]{0,127}$'),
  schema_version integer not null check (schema_version >= 1),
  aggregate_type text not null check (aggregate_type ~ '^[a-z][a-z0-9.-]{0,127}$'),
  when_parked    text not null check (when_parked in ('block', 'skip')),
  destinations   smallint[] not null default '{}', -- what the routes of the type say, and the smallest max_bytes among them: append
  max_bytes      integer,                          -- reads one row; looking into route and destination cost it 40 µs
  primary key (type, schema_version)
);

create table outbox.destination (
  number    smallint generated always as identity primary key,
  name      text not null unique check (name ~ '^[a-z][a-z0-9-]{0,62}$'),
  kind      text not null check (kind in ('sqs-fifo', 'sqs', 'eventbridge')),
  ordered   boolean not null generated always as (kind = 'sqs-fifo') stored,
  group_id  text not null check (group_id in ('aggregate-id', 'aggregate-type-and-id')),
  max_bytes integer not null check (max_bytes between 1024 and 1048576),
  retired_at timestamptz                          -- since when the catalogue has it no more
);

create table outbox.route (
  type        text not null,
  destination smallint not null references outbox.destination,
  primary key (type, destination)
);

-- One row per aggregate. Its lock orders the writers, so that sequence order is commit order, without gaps. Never pruned:
-- a sequence that was used must not come again.
create table outbox.stream (
  aggregate_type text not null,
  aggregate_id   text not null,
  sequence       bigint not null,
  primary key (aggregate_type, aggregate_id)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- What happened. Nobody may update it. `data` is json, not jsonb: it goes out as it is stored, digit by digit, and reading it as text costs nothing.
create table outbox.event (
  id             uuid primary key,
  aggregate_type text not null,
  aggregate_id   text not null,
  sequence       bigint not null,
  type           text not null,
  schema_version integer not null,
  data           json not null,
  metadata       json,
  occurred_at    timestamptz not null
) with (autovacuum_vacuum_insert_scale_factor = 0.05);

create type outbox.delivery_state as enum ('pending', 'parked', 'blocked', 'set_aside', 'published');

-- What has to go where. A second table, because marking it must not rewrite the payload.
-- The columns that settling changes stand last, and a page is filled to less than half: the new version of a row then fits beside the
-- old one, and the WAL holds what differs. Together that takes 130 off the 500 bytes that settling an event wrote.
create table outbox.delivery (
  position      bigint generated always as identity primary key,
  event_id      uuid not null,
  aggregate_key uuid not null,                    -- outbox.aggregate_key(type, id)
  sequence      bigint not null,
  xid           xid8 not null default pg_current_xact_id(),
  created_at    timestamptz not null default clock_timestamp(),
  destination   smallint not null,
  partition     smallint not null,                -- 0 to 63, from aggregate_key; a check would cost each append 10 µs
  bytes         integer not null,                 -- upper bound of the message's size
  replay        integer not null default 0,       -- 0: live; else the number of the replay
  run           integer not null default 0,       -- raised by a redrive, so that the queue's 5-minute window does not swallow it
  due_at        timestamptz not null default '-infinity',
  attempts      integer not null default 0,
  state         outbox.delivery_state not null default 'pending',
  published_at  timestamptz,
  message_id    text,                             -- what the destination called it
  last_error    text                              -- code and text of the last refusal; never data
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- Finds work: a relay walks along the writers' transaction ids. The partition stands last, to be filtered without a look at the table.
create index delivery_pending on outbox.delivery (destination, xid, position, partition)
  where state = 'pending' and replay = 0;
-- Answers what order rests on: what of this aggregate, below this sequence, is not yet out?
create index delivery_chain on outbox.delivery (destination, aggregate_key, sequence)
  where state in ('pending', 'parked', 'blocked') and replay = 0;
-- Counts what needs a person, without a walk through the rest.
create index delivery_parked on outbox.delivery (destination, position) where state = 'parked';
create index delivery_blocked on outbox.delivery (destination, position) where state = 'blocked';

-- What relays lease. Partitions, not rows: with rows, the second event of an aggregate overtakes the first.
create table outbox.partition (
  number           smallint primary key check (number between 0 and 63),
  lease_owner      uuid,
  lease_token      bigint not null default 0,     -- grows with every change of owner
  lease_expires_at timestamptz
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
insert into outbox.partition (number) select generate_series(0, 63);

-- Which relays live, to share the partitions fairly and to hand over from one run to the next.
create table outbox.relay (
  owner      uuid primary key,
  slot       text not null,                       -- the schedule or process that starts it
  started_at timestamptz not null default clock_timestamp(),
  seen_at    timestamptz not null default clock_timestamp(),
  ended_at   timestamptz                          -- when it handed over; the row stays for a day as the last sign of life
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Acts of operators and of deployments that change what will be delivered.
create table outbox.audit (
  id     bigint generated always as identity primary key,
  at     timestamptz not null default clock_timestamp(),
  actor  text not null default session_user,
  act    text not null,
  detail jsonb not null default '{}'
);

grant select on outbox.installation, outbox.destination, outbox.event_type, outbox.route
  to outbox_relay, outbox_janitor, outbox_monitor;

grant select on outbox.event, outbox.delivery, outbox.partition, outbox.relay to outbox_relay;
grant update (state, due_at, attempts, last_error, published_at, message_id) on outbox.delivery to outbox_relay;
grant update (lease_owner, lease_token, lease_expires_at) on outbox.partition to outbox_relay;
grant insert (owner, slot), update (seen_at, ended_at), delete on outbox.relay to outbox_relay;

grant select on outbox.delivery, outbox.audit to outbox_janitor;
grant select (id, type, occurred_at) on outbox.event to outbox_janitor;
grant delete on outbox.event, outbox.delivery to outbox_janitor;

grant select on outbox.delivery, outbox.partition, outbox.relay, outbox.audit to outbox_monitor;
grant select (id, aggregate_type, aggregate_id, sequence, type, schema_version, occurred_at) on outbox.event to outbox_monitor;
