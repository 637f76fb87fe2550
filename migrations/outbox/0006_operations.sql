-- What a person may do with deliveries that wait for one, and what a relay does by policy. Nobody touches the tables for that:
--
--   outbox_operator   calls redrive, skip, unblock, restore and list_parked, and sees and changes nothing else
--
-- Each act writes outbox.audit with the name of the user who logged in, in the same transaction. Errors; nothing is changed then:
--   OB006  the delivery, or the aggregate, is not in the state that the act needs
--   OB007  there is no such delivery or destination
--   OB008  an argument is missing or malformed
--   OB009  the transaction is not READ COMMITTED
do $$
begin
  if not exists (select from pg_roles where rolname = 'outbox_operator') then
    create role outbox_operator nologin;
  end if;
end
$$;

set local role outbox_owner;
grant usage on schema outbox to outbox_operator;

-- What every act begins with.
--
-- Acts decide by what they read after they hold the partition's lock. A snapshot from before that lock would show a head that was
-- parked or redriven meanwhile as it used to be, so only READ COMMITTED will do, where each statement has a snapshot of its own.
--
-- While an act's transaction is open, the relay that holds the partition can neither settle nor renew its lease. So an act neither
-- waits long, nor may its transaction be left open in some terminal: after 10 idle seconds the server ends it.
create function outbox.begin_act(reason text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  idle_ms integer;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'this transaction is %: it could decide by what is no longer so. Nothing was changed.',
      current_setting('transaction_isolation')
      using errcode = 'OB009', hint = 'begin isolation level read committed';
  end if;
  if coalesce(btrim(reason), '') = '' or char_length(reason) > 500 then
    raise exception 'reason must have 1 to 500 characters: it is kept in the audit. Nothing was changed.' using errcode = 'OB008';
  end if;
  -- A tombstone that is on its way must not be taken back by a crash of the server.
  if current_setting('synchronous_commit') = 'off' then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  if current_setting('lock_timeout') = '0' then
    perform set_config('lock_timeout', '5s', true);
  end if;
  select setting::integer into strict idle_ms from pg_settings where name = 'idle_in_transaction_session_timeout';
  if idle_ms = 0 or idle_ms > 10000 then
    perform set_config('idle_in_transaction_session_timeout', '10s', true);
  end if;
end
$$;

-- Locks the delivery's partition, and only then reads the delivery: a relay that settles it holds the partition `for share`.
create function outbox.lock_delivery("position" bigint) returns outbox.delivery
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  partition_number smallint;
  locked outbox.delivery;
begin
  select d.partition into partition_number from outbox.delivery d where d.position = lock_delivery.position;
  if found then
    perform from outbox.partition p where p.number = partition_number for update;
    select d.* into locked from outbox.delivery d where d.position = lock_delivery.position for update;
  end if;
  if not found then
    raise exception 'there is no delivery %. Nothing was changed.', lock_delivery.position
      using errcode = 'OB007', hint = 'outbox.list_parked shows those that wait for a person.';
  end if;
  return locked;
end
$$;

-- Lets go what is blocked below the lowest parked delivery of a chain, all of it where none is parked. A new xid, because a relay finds
-- work by the transactions that it has not seen: it has seen the one that wrote the row. The caller holds the partition's lock.
-- Without sequential scans, because falsified statistics made them walk through five million published rows.
create function outbox.release_chain(destination smallint, aggregate_key uuid) returns integer
language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
#variable_conflict use_column
declare
  barrier bigint;
  released integer;
begin
  select min(d.sequence) into barrier
    from outbox.delivery d
   where d.destination = release_chain.destination and d.aggregate_key = release_chain.aggregate_key and d.replay = 0
     and d.state = 'parked';
  update outbox.delivery d
     set state = 'pending', xid = pg_current_xact_id()
   where d.destination = release_chain.destination and d.aggregate_key = release_chain.aggregate_key and d.replay = 0
     and d.state = 'blocked' and (barrier is null or d.sequence < barrier);
  get diagnostics released = row_count;
  return released;
end
$$;

-- Whether the delivery belongs to a chain at all, and one is parked below it there.
create function outbox.is_behind_parked(d outbox.delivery) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
begin
  return d.replay = 0
     and (select g.ordered from outbox.destination g where g.number = d.destination)
     and exists (
       select from outbox.delivery l
        where l.destination = d.destination and l.aggregate_key = d.aggregate_key and l.replay = 0
          and l.state = 'parked' and l.sequence < d.sequence);
end
$$;

-- Puts a tombstone in the delivery's place: same destination, aggregate and sequence, no data. A consumer that counts sequences moves
-- over it, and finds the id of what was left out in its causationid. A tombstone that is left out itself gets no other one, nor does an
-- event whose row is gone: then the gap stays, and whoever skipped it has accepted that. Returns the position of the tombstone, or null.
create function outbox.put_tombstone(d outbox.delivery) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  left_out outbox.event;
  tombstone uuid := outbox.uuid_v7();
  placed bigint;
begin
  select e.* into left_out from outbox.event e where e.id = d.event_id;
  if not found or left_out.type = 'outbox.skipped' then
    return null;
  end if;
  insert into outbox.event (id, aggregate_type, aggregate_id, sequence, type, schema_version, data, metadata, occurred_at)
  values (tombstone, left_out.aggregate_type, left_out.aggregate_id, left_out.sequence, 'outbox.skipped', 1, '{}',
          json_build_object('causationid', left_out.id), now());
  insert into outbox.delivery (event_id, destination, partition, replay, aggregate_key, sequence, bytes, state)
  select tombstone, d.destination, d.partition, d.replay, d.aggregate_key, d.sequence,
         600 + 2 * (octet_length(to_json(left_out.aggregate_id)::text) + octet_length(left_out.aggregate_type)
                    + octet_length(to_json(i.source)::text)),
         case when outbox.is_behind_parked(d) then 'blocked' else 'pending' end::outbox.delivery_state
    from outbox.installation i
  returning position into strict placed;
  return placed;
end
$$;

-- What the catalogue says of the event's type: that of its newest version, which is the policy of today. A tombstone blocks.
create function outbox.policy_of(event_id uuid) returns text
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return coalesce(
    (select t.when_parked from outbox.event e join outbox.event_type t on t.type = e.type
      where e.id = policy_of.event_id order by t.schema_version desc limit 1),
    'block');
end
$$;

-- What the audit says of a delivery: where it is, never what is in it.
create function outbox.describe(d outbox.delivery) returns jsonb
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
begin
  return (
    select jsonb_build_object(
             'position', d.position, 'event_id', d.event_id, 'destination', g.name, 'type', e.type,
             'aggregate_type', e.aggregate_type, 'aggregate_id', e.aggregate_id, 'sequence', d.sequence,
             'attempts', d.attempts, 'run', d.run, 'last_error', d.last_error)
      from outbox.destination g
      left join outbox.event e on e.id = d.event_id
     where g.number = d.destination);
end
$$;

-- Sends a parked delivery again: due at once, with all its attempts, and as a new run, because a FIFO queue swallows what it has seen
-- within five minutes. What waited behind it may go after it. Where another one is parked below it, it waits behind that (`blocked`).
create function outbox.redrive("position" bigint, reason text)
returns table (state text, run integer, unblocked integer)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  d outbox.delivery;
begin
  perform outbox.begin_act(reason);
  d := outbox.lock_delivery(redrive.position);
  if d.state <> 'parked' then
    raise exception 'delivery % is %, not parked. Nothing was changed.', d.position, d.state
      using errcode = 'OB006', hint = 'Only what is parked can be redriven.';
  end if;
  update outbox.delivery u
     set state = case when outbox.is_behind_parked(d) then 'blocked' else 'pending' end::outbox.delivery_state,
         run = u.run + 1, attempts = 0, due_at = '-infinity', xid = pg_current_xact_id()
   where u.position = d.position
   returning u.state::text, u.run into strict state, run;
  unblocked := case when d.replay = 0 then outbox.release_chain(d.destination, d.aggregate_key) else 0 end;
  insert into outbox.audit (act, detail)
  values ('redrive', outbox.describe(d) || jsonb_build_object('reason', reason, 'became', state, 'unblocked', unblocked));
  return next;
end
$$;

-- Leaves a parked delivery out for good and puts a tombstone in its place. What waited behind it may go after that.
create function outbox.skip("position" bigint, reason text)
returns table (tombstone bigint, unblocked integer)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  d outbox.delivery;
begin
  perform outbox.begin_act(reason);
  d := outbox.lock_delivery(skip.position);
  if d.state <> 'parked' then
    raise exception 'delivery % is %, not parked. Nothing was changed.', d.position, d.state
      using errcode = 'OB006', hint = 'Only what is parked can be skipped.';
  end if;
  update outbox.delivery u set state = 'set_aside' where u.position = d.position;
  tombstone := outbox.put_tombstone(d);
  unblocked := case when d.replay = 0 then outbox.release_chain(d.destination, d.aggregate_key) else 0 end;
  insert into outbox.audit (act, detail)
  values ('skip', outbox.describe(d) || jsonb_build_object('reason', reason, 'tombstone', tombstone, 'unblocked', unblocked));
  return next;
end
$$;

-- What a relay does in place of parking, for types whose catalogue says `skip`: the same as skip, without a person. Refuses other types, so
-- that the relay's rights do not reach further than the policy. Returns the tombstone's position; null, and changes nothing, where the
-- delivery was published or set aside meanwhile, or where `owner` is given and no longer holds the partition.
create function outbox.set_aside("position" bigint, reason text, owner uuid default null) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  d outbox.delivery;
  tombstone bigint;
begin
  perform outbox.begin_act(left(reason, 500));
  d := outbox.lock_delivery(set_aside.position);
  if d.state not in ('pending', 'parked') then
    return null;
  end if;
  if owner is not null and not exists (
    select from outbox.partition p
     where p.number = d.partition and p.lease_owner = owner and p.lease_expires_at > clock_timestamp()
  ) then
    return null;
  end if;
  if outbox.policy_of(d.event_id) <> 'skip' then
    raise exception 'delivery %: the catalogue does not say skip for its type. Nothing was changed.', d.position
      using errcode = 'OB006', hint = 'Park it.';
  end if;
  update outbox.delivery u
     set state = 'set_aside', attempts = u.attempts + 1, last_error = left(reason, 500)
   where u.position = d.position
   returning u.* into strict d;
  tombstone := outbox.put_tombstone(d);
  if d.replay = 0 then
    perform outbox.release_chain(d.destination, d.aggregate_key);
  end if;
  insert into outbox.audit (act, detail)
  values ('set_aside', outbox.describe(d) || jsonb_build_object('reason', left(reason, 500), 'tombstone', tombstone));
  return tombstone;
end
$$;

-- Lets go what is blocked although nothing is parked below it. That should not happen; the monitor counts it as `orphaned`.
-- Returns how many deliveries are pending again.
create function outbox.unblock(destination text, aggregate_type text, aggregate_id text, reason text) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  destination_number smallint;
  key uuid := outbox.aggregate_key(aggregate_type, aggregate_id);
  head bigint;
  unblocked integer;
begin
  perform outbox.begin_act(reason);
  select g.number into destination_number from outbox.destination g where g.name = unblock.destination;
  if not found then
    raise exception 'there is no destination of this name in the installed catalogue. Nothing was changed.' using errcode = 'OB007';
  end if;
  if key is null then
    raise exception 'aggregate_type and aggregate_id must be given. Nothing was changed.' using errcode = 'OB008';
  end if;
  perform from outbox.partition p where p.number = (get_byte(uuid_send(key), 0) & 63) for update;
  unblocked := outbox.release_chain(destination_number, key);
  if unblocked = 0 then
    select d.position into head
      from outbox.delivery d
     where d.destination = destination_number and d.aggregate_key = key and d.replay = 0 and d.state = 'parked'
     order by d.sequence limit 1;
    if found then
      raise exception 'this aggregate waits behind delivery %, which is parked. Nothing was changed.', head
        using errcode = 'OB006', hint = 'Redrive or skip that one: what is blocked behind it follows by itself.';
    end if;
    raise exception 'nothing of this aggregate is blocked at this destination. Nothing was changed.' using errcode = 'OB006';
  end if;
  insert into outbox.audit (act, detail)
  values ('unblock', jsonb_build_object('destination', destination, 'aggregate_type', aggregate_type, 'aggregate_id', aggregate_id,
                                        'reason', reason, 'unblocked', unblocked));
  return unblocked;
end
$$;

-- To be called once after the database was restored from a backup or a copy, or failed over with loss, before relays start:
--
-- 1. A new epoch. Sequences that were used after the backup would be used again, and consumers would take new events for ones that they
--    have had. The epoch is the high bits of every new sequence, so the next event of each aggregate is above whatever anybody saw.
--    It is at least the number of five-minute steps since 2026: counting from the stored one alone, two restores of one backup would
--    give the same epoch, and the second would repeat the sequences of the first. Lasts until 2065, and then counts on by ones.
-- 2. The identity of this cluster. Relays refuse to run against any other.
-- 3. A new xid for whatever is not finished. In another cluster transaction ids start over: those of the old one lie in the future
--    there, and no relay would ever meet such a row.
-- 4. No leases, no relays: those that are written down belong to the past.
--
-- One transaction, so an interruption leaves everything as it was. Waits for transactions that have appended and not yet ended, for
-- five seconds at most; new appends wait for it: 200,000 unfinished deliveries take about 5 seconds.
create function outbox.restore(cluster text, reason text) returns table (epoch integer, restamped bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  before outbox.installation;
begin
  perform outbox.begin_act(reason);
  if coalesce(restore.cluster, '') !~ '^\S{1,200}$' then
    raise exception 'cluster must have 1 to 200 characters and no space. Nothing was changed.' using errcode = 'OB008';
  end if;
  -- append() reads the epoch, and holds this table until its transaction ends: none that read the old one is still under way.
  lock table outbox.installation in access exclusive mode;
  select i.* into strict before from outbox.installation i;
  epoch := greatest(before.epoch + 1,
    least(4194303, floor(extract(epoch from clock_timestamp() - timestamptz '2026-01-01 00:00:00Z') / 300))::integer);
  update outbox.installation i set epoch = restore.epoch, cluster = restore.cluster;

  perform from outbox.partition p order by p.number for update;
  update outbox.partition p set lease_owner = null, lease_expires_at = null, lease_token = p.lease_token + 1;
  update outbox.relay r set ended_at = clock_timestamp() where r.ended_at is null;
  update outbox.delivery d set xid = pg_current_xact_id() where d.state in ('pending', 'parked', 'blocked');
  get diagnostics restamped = row_count;

  insert into outbox.audit (act, detail)
  values ('restore', jsonb_build_object('reason', reason, 'cluster', restore.cluster, 'cluster_before', before.cluster,
                                        'epoch', restore.epoch, 'epoch_before', before.epoch, 'restamped', restamped));
  return next;
end
$$;

-- What waits for a person, oldest first, a page at a time: `after` is the last position of the page before. Says where a delivery
-- belongs and why it is parked, never what is in it; type and aggregate are empty where the event's row is gone. Looking is an act, too, because ids of aggregates may say something of persons.
create function outbox.list_parked(destination text default null, after bigint default null, at_most integer default 100)
returns table (
  "position" bigint, event_id uuid, destination_name text, type text, schema_version integer, when_parked text,
  aggregate_type text, aggregate_id text, sequence bigint, attempts integer, run integer, last_error text,
  created_at timestamptz, blocked_behind bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  destination_number smallint;
  listed integer;
begin
  if at_most is null or at_most not between 1 and 1000 then
    raise exception 'at_most must be between 1 and 1000.' using errcode = 'OB008';
  end if;
  if list_parked.destination is not null then
    select g.number into destination_number from outbox.destination g where g.name = list_parked.destination;
    if not found then
      raise exception 'there is no destination of this name in the installed catalogue.' using errcode = 'OB007';
    end if;
  end if;
  return query
    select d.position, d.event_id, g.name, coalesce(e.type, ''), coalesce(e.schema_version, 0), outbox.policy_of(d.event_id),
           coalesce(e.aggregate_type, ''), coalesce(e.aggregate_id, ''), d.sequence, d.attempts, d.run, d.last_error, d.created_at,
           (select count(*)
              from outbox.delivery b
             where b.destination = d.destination and b.aggregate_key = d.aggregate_key and b.replay = 0
               and b.state = 'blocked' and b.sequence > d.sequence and d.replay = 0)
      from outbox.delivery d
      join outbox.destination g on g.number = d.destination
      left join outbox.event e on e.id = d.event_id
     where d.state = 'parked'
       and (destination_number is null or d.destination = destination_number)
       and (after is null or d.position > after)
     order by d.position
     limit at_most;
  get diagnostics listed = row_count;
  insert into outbox.audit (act, detail)
  values ('list_parked', jsonb_build_object('destination', list_parked.destination, 'after', after, 'listed', listed));
end
$$;

grant execute on function outbox.set_aside(bigint, text, uuid) to outbox_relay;
grant execute on function
  outbox.redrive(bigint, text), outbox.skip(bigint, text), outbox.set_aside(bigint, text, uuid),
  outbox.unblock(text, text, text, text), outbox.restore(text, text), outbox.list_parked(text, bigint, integer)
  to outbox_operator;
