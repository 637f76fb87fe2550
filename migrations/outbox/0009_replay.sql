-- Replay: events that were published once are published again to one destination, beside the live ones.
--
-- A replay's deliveries are rows of outbox.delivery with its number in `replay`. The indexes of live deliveries leave them out, so they cost
-- those nothing and have no place in their chains.
--
--   outbox_replayer  brings archived events back for a replay that waits for them, and sees and changes nothing else
do $$
begin
  if not exists (select from pg_roles where rolname = 'outbox_replayer') then
    create role outbox_replayer nologin;
  end if;
end
$$;

set local role outbox_owner;
grant usage on schema outbox to outbox_replayer;

create table outbox.replay (
  number       integer generated always as identity primary key,
  destination  smallint not null references outbox.destination,
  scope        jsonb not null,
  per_second   integer not null check (per_second between 1 and 100000),
  -- loading: archived events are being brought back; running: planned first, then sent
  state        text not null check (state in ('loading', 'running', 'paused', 'done', 'cancelled')),
  walked_to    uuid not null default '00000000-0000-0000-0000-000000000000', -- how far the planning has read outbox.event
  planned      bigint not null default 0,           -- deliveries written for it
  planned_at   timestamptz,                         -- since when that is all of them; before, nothing is sent
  actor        text not null default session_user,
  reason       text not null,
  created_at   timestamptz not null default clock_timestamp(),
  running_since timestamptz not null default clock_timestamp(), -- since when it last runs
  finished_at  timestamptz
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- One look a second asks for these.
create index replay_running on outbox.replay (destination, number) where state = 'running';
-- The walk of a relay along what is to be sent.
create index delivery_replay_pending on outbox.delivery (replay, position, partition) where replay > 0 and state = 'pending';
-- What of an aggregate is not yet out, as delivery_chain for the live ones. Unique: planning the same event twice changes nothing.
create unique index delivery_replay_chain on outbox.delivery (replay, aggregate_key, sequence)
  where replay > 0 and state in ('pending', 'parked', 'blocked');

-- Events that a replay has still to read must not go; once it is planned, its deliveries keep them.
create or replace function outbox.replay_reads_events() returns boolean
language sql stable set search_path = pg_catalog, pg_temp
return exists (select from outbox.replay r where r.planned_at is null and r.state in ('loading', 'running', 'paused'));

-- A scope has one or more of: aggregate_type, aggregate_id, types, event_ids, from (included), to (excluded). An event must fit all of them.
create function outbox.check_scope(scope jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  known constant text[] := array['aggregate_type', 'aggregate_id', 'types', 'event_ids', 'from', 'to'];
  problem text;
begin
  problem := case
    when scope is null or jsonb_typeof(scope) <> 'object' then 'must be an object'
    when scope = '{}' then 'is empty: say at least from when'
    when scope - known <> '{}' then 'has a key that a replay does not know'
    when scope ? 'aggregate_id' and not scope ? 'aggregate_type' then 'has aggregate_id without aggregate_type'
    when jsonb_path_exists(scope, '$.aggregate_type ? (@.type() != "string")')
      or jsonb_path_exists(scope, '$.aggregate_id ? (@.type() != "string")') then 'has an aggregate that is no string'
    when scope ? 'types' and (jsonb_typeof(scope -> 'types') <> 'array' or scope -> 'types' = '[]'
      or jsonb_path_exists(scope, '$.types[*] ? (@.type() != "string")')) then 'types must be strings, one at least'
    when scope ? 'event_ids' and (jsonb_typeof(scope -> 'event_ids') <> 'array'
      or jsonb_array_length(scope -> 'event_ids') not between 1 and 10000
      or exists (select from jsonb_array_elements_text(scope -> 'event_ids') as i (id) where not coalesce(pg_input_is_valid(i.id, 'uuid'), false)))
      then 'event_ids must be 1 to 10,000 UUIDs'
    when scope ? 'from' and not coalesce(pg_input_is_valid(scope ->> 'from', 'timestamptz'), false)
      or scope ? 'to' and not coalesce(pg_input_is_valid(scope ->> 'to', 'timestamptz'), false) then 'from and to must be times'
  end;
  if problem is not null then
    raise exception 'scope %. Nothing was changed.', problem using errcode = 'OB008';
  end if;
end
$$;

create function outbox.is_in_scope(scope jsonb, e_type text, e_aggregate_type text, e_aggregate_id text, e_id uuid, e_occurred_at timestamptz)
returns boolean
language sql stable parallel safe
return (scope ->> 'aggregate_type' is null or e_aggregate_type = scope ->> 'aggregate_type')
   and (scope ->> 'aggregate_id' is null or e_aggregate_id = scope ->> 'aggregate_id')
   and (scope -> 'types' is null or scope -> 'types' ? e_type)
   and (scope -> 'event_ids' is null or scope -> 'event_ids' ? e_id::text)
   and (scope ->> 'from' is null or e_occurred_at >= (scope ->> 'from')::timestamptz)
   and (scope ->> 'to' is null or e_occurred_at < (scope ->> 'to')::timestamptz);

-- Ids and times as PostgreSQL writes them: ids are compared as text, and `to` may say now.
create function outbox.normal_scope(scope jsonb) returns jsonb
language sql stable
return scope
  || case when scope ? 'event_ids' then jsonb_build_object('event_ids',
       (select jsonb_agg(distinct i.id::uuid) from jsonb_array_elements_text(scope -> 'event_ids') as i (id))) else '{}' end
  || case when scope ? 'from' then jsonb_build_object('from', (scope ->> 'from')::timestamptz) else '{}' end
  || case when scope ? 'to' then jsonb_build_object('to', (scope ->> 'to')::timestamptz) else '{}' end;

-- The destination's number, where a replay may go.
create function outbox.replay_destination(name text) returns smallint
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  number smallint;
begin
  select g.number into number from outbox.destination g where g.name = replay_destination.name and g.retired_at is null;
  if not found then
    raise exception 'there is no destination of this name in the installed catalogue. Nothing was changed.' using errcode = 'OB007';
  end if;
  return number;
end
$$;

-- What a replay would send, without writing anything but the audit. Reads the whole event table.
create function outbox.count_replay(destination text, scope jsonb)
returns table (events bigint, aggregates bigint, bytes bigint, oldest timestamptz, newest timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  wanted jsonb;
  number smallint;
begin
  perform outbox.check_scope(count_replay.scope);
  wanted := outbox.normal_scope(count_replay.scope);
  number := outbox.replay_destination(count_replay.destination);
  select count(*), count(distinct (e.aggregate_type, e.aggregate_id)), coalesce(sum(octet_length(e.data::text)), 0)::bigint,
         min(e.occurred_at), max(e.occurred_at)
    into events, aggregates, bytes, oldest, newest
    from outbox.event e
    join outbox.route r on r.type = e.type and r.destination = number
   where outbox.is_in_scope(wanted, e.type, e.aggregate_type, e.aggregate_id, e.id, e.occurred_at);
  insert into outbox.audit (act, detail)
  values ('count_replay', jsonb_build_object('destination', count_replay.destination, 'scope', wanted, 'events', events));
  return next;
end
$$;

-- Starts a replay and returns its number. A relay plans it, and sends when the plan is complete. Several replays to one destination go one
-- after the other, in the order of their numbers.
create function outbox.start_replay(destination text, scope jsonb, per_second integer, reason text, from_archive boolean default false, paused boolean default false)
returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  started integer;
begin
  perform outbox.begin_act(start_replay.reason);
  perform outbox.check_scope(start_replay.scope);
  -- Waits for the page that is being pruned.
  perform from outbox.walk w order by w.name for update;
  if start_replay.per_second is null or start_replay.per_second not between 1 and 100000 then
    raise exception 'per_second must be between 1 and 100,000. Nothing was changed.' using errcode = 'OB008';
  end if;
  insert into outbox.replay (destination, scope, per_second, state, reason)
  values (outbox.replay_destination(start_replay.destination), outbox.normal_scope(start_replay.scope), start_replay.per_second,
          case when from_archive then 'loading' when paused then 'paused' else 'running' end, start_replay.reason)
  returning number into strict started;
  insert into outbox.audit (act, detail)
  values ('start_replay', jsonb_build_object(
    'replay', started, 'destination', start_replay.destination, 'scope', outbox.normal_scope(start_replay.scope),
    'per_second', start_replay.per_second, 'from_archive', from_archive, 'paused', paused, 'reason', start_replay.reason));
  return started;
end
$$;

-- Puts a replay from one of some states into another. Waits for a planning step that is under way.
create function outbox.change_replay(number integer, act text, allowed text[], becomes text, reason text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  found_state text;
begin
  perform outbox.begin_act(change_replay.reason);
  select r.state into found_state from outbox.replay r where r.number = change_replay.number for update;
  if not found then
    raise exception 'there is no replay %. Nothing was changed.', change_replay.number using errcode = 'OB007';
  elsif found_state <> all (allowed) then
    raise exception 'replay % is %. Nothing was changed.', change_replay.number, found_state using errcode = 'OB006';
  end if;
  update outbox.replay r
     set state = becomes, finished_at = case when becomes = 'cancelled' then coalesce(r.finished_at, clock_timestamp()) end
   where r.number = change_replay.number;
  insert into outbox.audit (act, detail)
  values (act, jsonb_build_object('replay', change_replay.number, 'was', found_state, 'reason', change_replay.reason));
end
$$;

create function outbox.pause_replay(number integer, reason text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform outbox.change_replay(number, 'pause_replay', '{running}', 'paused', reason);
end
$$;

create function outbox.resume_replay(number integer, reason text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform outbox.change_replay(number, 'resume_replay', '{paused}', 'running', reason);
  update outbox.replay r set running_since = clock_timestamp() where r.number = resume_replay.number;
end
$$;

-- Ends a replay for good. What it has not sent is removed by clear_replay, a slice at a time.
create function outbox.cancel_replay(number integer, reason text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform outbox.change_replay(number, 'cancel_replay', '{loading,running,paused,cancelled}', 'cancelled', reason);
end
$$;

-- Removes up to `page` unsent deliveries of a cancelled replay and returns how many; 0: none is left.
create function outbox.clear_replay(number integer, page integer default 1000) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  removed integer;
begin
  if not exists (select from outbox.replay r where r.number = clear_replay.number and r.state = 'cancelled') then
    raise exception 'replay % is not cancelled. Nothing was changed.', clear_replay.number using errcode = 'OB006';
  end if;
  delete from outbox.delivery d
   where d.position = any (array(
     select l.position from outbox.delivery l
      where l.replay = clear_replay.number and l.replay > 0 and l.state in ('pending', 'parked', 'blocked')
      limit page for update skip locked));
  get diagnostics removed = row_count;
  return removed;
end
$$;

-- How replays stand, the newest first. `sent` is what is out, tombstones included; `waiting` and `parked` are counted.
create function outbox.list_replays(replay integer default null, at_most integer default 20)
returns table (
  number integer, destination_name text, scope jsonb, per_second integer, state text, planned bigint, planned_at timestamptz,
  waiting bigint, parked bigint, actor text, reason text, created_at timestamptz, finished_at timestamptz)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
#variable_conflict use_column
begin
  return query
    select r.number, g.name, r.scope, r.per_second, r.state, r.planned, r.planned_at, o.waiting, o.parked, r.actor, r.reason,
           r.created_at, r.finished_at
      from outbox.replay r
      join outbox.destination g on g.number = r.destination
     cross join lateral (
       select count(*) filter (where d.state <> 'parked') as waiting, count(*) filter (where d.state = 'parked') as parked
         from outbox.delivery d
        where d.replay = r.number and d.replay > 0 and d.state in ('pending', 'parked', 'blocked')) o
     where list_replays.replay is null or r.number = list_replays.replay
     order by r.number desc
     limit at_most;
end
$$;

-- Upper bound of a replayed message's size, as append counts it.
create function outbox.replay_bytes(e outbox.event, source text) returns integer
language sql stable
return 540 + octet_length((e).data::text) + coalesce(octet_length((e).metadata::text), 0) + 2 * octet_length(to_json(source)::text)
  + 2 * (octet_length(to_json((e).aggregate_id)::text) + octet_length((e).type) + octet_length((e).aggregate_type))
  + case when (e).aggregate_id || coalesce((e).metadata::jsonb #>> '{}', '') ~ '[\uFFFE\uFFFF]' then 3000 else 0 end;

-- Writes the deliveries of a replay for the events with these ids; those that it has already are left as they are.
--
-- Only what went live: an event that was written since, or is parked, or waits behind one that is, comes by itself, and not before those below it.
-- Types without a route to the destination are left out, and so are tombstones: what they stand for is sent itself, and may meet its policy again.
create function outbox.plan_deliveries(r outbox.replay, ids uuid[]) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off
set plan_cache_mode = force_generic_plan as $$
declare
  written bigint;
begin
  with fitting as materialized (
    select e.id, e.aggregate_type, e.aggregate_id, e.sequence, outbox.aggregate_key(e.aggregate_type, e.aggregate_id) as key,
           outbox.replay_bytes(e, i.source) as bytes
      from outbox.event e, outbox.installation i
     where e.id = any (ids)
       and outbox.is_in_scope(r.scope, e.type, e.aggregate_type, e.aggregate_id, e.id, e.occurred_at)
       and exists (select from outbox.route t where t.type = e.type and t.destination = r.destination)
  )
  insert into outbox.delivery (event_id, destination, partition, replay, aggregate_key, sequence, bytes)
  select f.id, r.destination, get_byte(uuid_send(f.key), 0) & 63, r.number, f.key, f.sequence, f.bytes
    from fitting f
   where not exists (
     select from outbox.delivery l
      where l.destination = r.destination and l.aggregate_key = f.key and l.sequence <= f.sequence
        and l.state in ('pending', 'parked', 'blocked') and l.replay = 0)
   order by f.id
  on conflict do nothing;
  get diagnostics written = row_count;
  return written;
end
$$;

-- One bounded step of planning, which relays call: reads `page` events on from where the last step ended. Returns whether the plan is
-- complete. Nothing is sent before, because order needs every lower event of an aggregate in the plan, and ids, which a writer may choose, do not
-- follow its sequence. Two relays that plan at once: one goes on, the other is told to wait.
--
-- A live delivery that was under way when the replay began to run is waited for. Its consumer may have applied it and been reset since, and what
-- the relay then sends again of it the queue swallows: left out, it would be lost for that consumer.
create function outbox.plan_replay(number integer, page integer default 1000) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  r outbox.replay;
  ids uuid[];
  complete boolean;
  written bigint;
begin
  select p.* into r from outbox.replay p where p.number = plan_replay.number and p.state = 'running' for update skip locked;
  if not found then
    return false;
  end if;
  if r.planned_at is not null then
    return true;
  end if;
  if r.scope ? 'event_ids' then
    ids := array(select i.id::uuid from jsonb_array_elements_text(r.scope -> 'event_ids') as i (id));
    complete := true;
  else
    ids := array(select e.id from outbox.event e where e.id > r.walked_to order by e.id limit page);
    complete := cardinality(ids) = 0;
  end if;
  if exists (
    select from outbox.event e
     cross join lateral (
       select from outbox.delivery l
        where l.destination = r.destination and l.aggregate_key = outbox.aggregate_key(e.aggregate_type, e.aggregate_id)
          and l.sequence <= e.sequence and l.state in ('pending', 'parked', 'blocked') and l.replay = 0
          and l.state = 'pending' and l.created_at <= r.running_since
        limit 1) under_way
     where e.id = any (ids) and outbox.is_in_scope(r.scope, e.type, e.aggregate_type, e.aggregate_id, e.id, e.occurred_at)
  ) then
    return false;
  end if;
  written := outbox.plan_deliveries(r, ids);
  update outbox.replay p
     set planned = p.planned + written, walked_to = case when complete then p.walked_to else ids[cardinality(ids)] end,
         planned_at = case when complete then clock_timestamp() end
   where p.number = r.number;
  return complete;
end
$$;

-- Ends a replay of which nothing waits any more. Returns whether it has ended; what is parked keeps it open.
create function outbox.finish_replay(number integer) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
begin
  if not exists (
    select from outbox.delivery d
     where d.replay = finish_replay.number and d.replay > 0 and d.state in ('pending', 'parked', 'blocked')
  ) then
    update outbox.replay r set state = 'done', finished_at = clock_timestamp()
     where r.number = finish_replay.number and r.state = 'running' and r.planned_at is not null;
  end if;
  return exists (select from outbox.replay r where r.number = finish_replay.number and r.state = 'done');
end
$$;

-- Finds what of a replay is to be sent next: pending rows above `after`, by position, and what is asked for by name. Of each aggregate
-- that they name the result has everything that is not yet out, from the lowest sequence up. The first row (`key` is null) is about the
-- scan: whether the replay still runs, how many rows the page had, and the last of them.
create function outbox.find_replay(
  number integer, ordered boolean, partitions smallint[], after bigint, wake uuid[], wake_position bigint[], page integer, cut integer
) returns table (
  key uuid, "position" bigint, event_id uuid, partition smallint, sequence bigint, attempts integer, run integer, bytes integer,
  state outbox.delivery_state, due_in_ms double precision, scan jsonb
)
language plpgsql stable rows 500
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_mergejoin = off set enable_hashjoin = off
set plan_cache_mode = force_generic_plan
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  runs boolean;
  page_position bigint[];
  page_key uuid[];
  now_at timestamptz := clock_timestamp();
begin
  select r.state = 'running' and r.planned_at is not null into runs from outbox.replay r where r.number = find_replay.number;
  if runs then
    select array_agg(p.position), array_agg(p.aggregate_key) into page_position, page_key
      from (select d.position, d.aggregate_key
              from outbox.delivery d
             where d.replay = find_replay.number and d.replay > 0 and d.state = 'pending' and d.position > after
               and d.partition = any (partitions)
             order by d.replay, d.position
             limit page) p;
  end if;
  scan := jsonb_build_object('runs', coalesce(runs, false), 'rows', coalesce(array_length(page_position, 1), 0),
    'position', page_position[array_length(page_position, 1)]::text);
  return next;
  if runs is not true then
    return;
  end if;
  scan := null;
  if ordered then
    return query
      select l.aggregate_key, l.position, l.event_id, l.partition, l.sequence, l.attempts, l.run, l.bytes, l.state,
             case when l.due_at <= now_at then 0 else date_part('epoch', l.due_at - now_at) * 1000 end, null::jsonb
        from (select distinct m.key from unnest(coalesce(page_key, '{}') || coalesce(wake, '{}')) as m (key)) m
       cross join lateral (
         select d.aggregate_key, d.position, d.event_id, d.partition, d.sequence, d.attempts, d.run, d.bytes, d.state, d.due_at
           from outbox.delivery d
          where d.replay = find_replay.number and d.replay > 0 and d.aggregate_key = m.key
            and d.state in ('pending', 'parked', 'blocked')
          order by d.replay, d.aggregate_key, d.sequence
          limit cut
       ) l;
  else
    return query
      select d.aggregate_key, d.position, d.event_id, d.partition, d.sequence, d.attempts, d.run, d.bytes, d.state,
             case when d.due_at <= now_at then 0 else date_part('epoch', d.due_at - now_at) * 1000 end, null::jsonb
        from (select distinct m.at from unnest(coalesce(page_position, '{}') || coalesce(wake_position, '{}')) as m (at)) m
       cross join lateral (select * from outbox.delivery where delivery.position = m.at limit 1) d
       where d.state = 'pending' and d.replay = find_replay.number;
  end if;
end
$$;

-- As apply_parking, for a replay: parked ones of types with the policy `skip` are set aside, where order is kept only the head of each
-- aggregate. With `block` those behind a parked head wait where they are. Returns the keys that have to be looked up again.
create function outbox.apply_replay_parking(number integer, keys uuid[]) returns setof uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
#variable_conflict use_variable
declare
  key uuid;
  parked record;
  ordered boolean;
begin
  select t.ordered into strict ordered
    from outbox.replay r join outbox.destination t on t.number = r.destination where r.number = apply_replay_parking.number;
  for key in select k from unnest(keys) as u (k) group by k order by get_byte(uuid_send(k), 0) & 63, k loop
    perform from outbox.partition p where p.number = get_byte(uuid_send(key), 0) & 63 for update;
    for parked in
      select d.position, d.last_error
        from outbox.delivery d
       where d.replay = apply_replay_parking.number and d.replay > 0 and d.aggregate_key = key and d.state = 'parked'
         and outbox.policy_of(d.event_id) = 'skip'
         and not (ordered and exists (
           select from outbox.delivery l
            where l.replay = d.replay and l.replay > 0 and l.aggregate_key = key and l.sequence < d.sequence
              and l.state in ('pending', 'parked', 'blocked')))
       order by d.sequence
    loop
      perform outbox.set_aside(parked.position, parked.last_error);
      if ordered then
        return next key;
      end if;
    end loop;
  end loop;
end
$$;

-- Brings archived events back for a replay that waits for them: those in its scope that are missing are written again, with the same id and
-- sequence, and with their deliveries, so that nobody prunes them meanwhile. An event that a stream has not reached is refused:
-- nothing can be invented. `events` as the archive has them, and json, so that data stays the text that it was. Returns how many deliveries were written.
create function outbox.return_events(number integer, events json) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  r outbox.replay;
  returned outbox.event[];
  unknown uuid;
  written bigint;
begin
  select p.* into r from outbox.replay p where p.number = return_events.number for update;
  if not found or r.state <> 'loading' then
    raise exception 'replay % does not wait for archived events. Nothing was changed.', return_events.number using errcode = 'OB006';
  end if;
  select coalesce(array_agg(row(e.id, e.aggregate_type, e.aggregate_id, e.sequence, e.type, e.schema_version, e.data, e.metadata,
                                e.occurred_at)::outbox.event), '{}')
    into returned
    from json_to_recordset(events) as e (
      id uuid, aggregate_type text, aggregate_id text, sequence bigint, type text, schema_version integer, data json, metadata json,
      occurred_at timestamptz)
   where outbox.is_in_scope(r.scope, e.type, e.aggregate_type, e.aggregate_id, e.id, e.occurred_at);
  select e.id into unknown
    from unnest(returned) e
    left join outbox.stream s on (s.aggregate_type, s.aggregate_id) = (e.aggregate_type, e.aggregate_id)
   where s.sequence is null or s.sequence < e.sequence
   limit 1;
  if found then
    raise exception 'event % was never appended here. Nothing was changed.', unknown using errcode = 'OB008';
  end if;
  insert into outbox.event (id, aggregate_type, aggregate_id, sequence, type, schema_version, data, metadata, occurred_at)
  select e.* from unnest(returned) e
  on conflict (id) do nothing;
  written := outbox.plan_deliveries(r, array(select e.id from unnest(returned) e));
  update outbox.replay p set planned = p.planned + written where p.number = r.number;
  return written;
end
$$;

-- All archived events are back: the replay is planned on with what the table holds, and sent.
create function outbox.end_returning(number integer) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform outbox.change_replay(number, 'end_returning', '{loading}', 'running', 'all archived events are back');
end
$$;

grant select (number, destination, per_second, state, walked_to, planned_at) on outbox.replay to outbox_relay;
grant select on outbox.replay to outbox_monitor, outbox_janitor;
grant execute on function
  outbox.plan_replay(integer, integer), outbox.finish_replay(integer), outbox.apply_replay_parking(integer, uuid[]),
  outbox.find_replay(integer, boolean, smallint[], bigint, uuid[], bigint[], integer, integer)
  to outbox_relay;
grant execute on function
  outbox.count_replay(text, jsonb), outbox.start_replay(text, jsonb, integer, text, boolean, boolean), outbox.pause_replay(integer, text),
  outbox.resume_replay(integer, text), outbox.cancel_replay(integer, text), outbox.clear_replay(integer, integer),
  outbox.list_replays(integer, integer)
  to outbox_operator;
grant execute on function outbox.return_events(integer, json), outbox.end_returning(integer) to outbox_replayer;
