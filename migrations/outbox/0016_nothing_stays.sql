-- Nothing stays for ever, and no page is larger than a janitor's memory.
--
-- An event is met by the walk along the deliveries, or by the one along events without any. Neither met one whose type has a route and which has no
-- delivery all the same: written before its type had its first route, brought back from the archive for a replay that did not take it, or for one
-- that was cancelled. Now the first are looked for, and the others are not made any more.
set local role outbox_owner;

-- Since when a type, which had none, has a route: events of before have no deliveries. Null: always, or all of these are gone.
alter table outbox.event_type add column routed_since timestamptz;
-- Which types got their first route when, and what replays had left, nobody knows of the time before this. It is looked for among all types, once.
update outbox.event_type set routed_since = clock_timestamp() where destinations <> '{}';

-- The events of deliveries that the walk along them has left behind: what is still to be sent, and what was published late. Null where these cannot
-- be told: in a walk from the beginning, or if there are more than 20,000. Then nothing goes that may be one of them.
create function outbox.left_behind() returns uuid[]
language plpgsql stable set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set search_path = pg_catalog, pg_temp as $$
declare
  at_most constant integer := 20000;
  mark bigint;
  behind uuid[];
begin
  select w.mark::bigint into mark from outbox.walk w where w.name = 'deliveries' and not w.sweeping;
  if not found then
    return null;
  end if;
  behind := array(select d.event_id from outbox.delivery d where d.position <= mark order by d.position limit at_most + 1);
  return case when cardinality(behind) <= at_most then behind end;
end
$$;

-- What of the next `page` deliveries above `after` may go. `event_ids` and `positions` belong together, one pair for each delivery.
-- `reached` is where the page ends: before the first that is younger than `keep`, and behind the one with which it has 16 MB: an archive holds a page
-- several times over, and 2,000 events of 1 MB were more than a function has.
--
-- Deliveries of one event are written by one append, one right after the other: `around` the page is looked for those that others' came between.
-- What is not out is found wherever it is, by delivery_chain. Planned without choice, because statistics that are missing or wrong would
-- have it walk through the whole table.
create or replace function outbox.prunable(
  after bigint, keep interval, page integer,
  out event_ids uuid[], out positions bigint[], out reached bigint, out more boolean, out behind_seconds double precision
)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_mergejoin = off set enable_hashjoin = off
set plan_cache_mode = force_generic_plan
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  around constant integer := 500;
  room constant bigint := 16000000;
  cutoff timestamptz := clock_timestamp() - keep;
  destinations smallint[] := array(select g.number from outbox.destination g);
  seen integer;
  is_cut boolean;
  young bigint;
  oldest timestamptz;
begin
  select max(p.position) filter (where p.fits), count(*), bool_or(not p.fits),
         min(p.position) filter (where p.fits and p.created_at >= cutoff), min(p.created_at)
    into reached, seen, is_cut, young, oldest
    from (select d.position, d.created_at,
                 sum(d.bytes) over (order by d.position rows unbounded preceding) - d.bytes < room as fits
            from (select * from outbox.delivery where delivery.position > after order by delivery.position limit page) d) p;
  reached := coalesce(young - 1, reached, after);
  more := young is null and (seen = page or coalesce(is_cut, false));
  behind_seconds := 0;
  if outbox.replay_reads_events() then
    reached := after;
    more := false;
    behind_seconds := greatest(0, coalesce(extract(epoch from cutoff - oldest), 0));
    return;
  end if;
  if more then
    select greatest(0, extract(epoch from cutoff - d.created_at)) into behind_seconds from outbox.delivery d where d.position = reached;
  end if;

  select array_agg(w.event_id), array_agg(u.position) into event_ids, positions
    from (select d.event_id, (array_agg(d.aggregate_key))[1] as key, (array_agg(d.sequence))[1] as sequence, array_agg(d.position) as positions
            from outbox.delivery d
           where d.position > after - around and d.position <= reached + around
           group by d.event_id
          having bool_or(d.position > after and d.position <= reached)
             and bool_and(d.state = 'published' and d.published_at < cutoff or d.state = 'set_aside' and d.created_at < cutoff)) w
   cross join lateral unnest(w.positions) as u (position)
   where (select true
            from unnest(destinations) as g (number)
           cross join lateral (
             select from outbox.delivery o
              where o.destination = g.number and o.aggregate_key = w.key and o.sequence = w.sequence and o.replay = 0
                and o.state in ('pending', 'parked', 'blocked') and o.event_id = w.event_id
              limit 1) o
           limit 1) is null
     and (select true from outbox.delivery r
           where r.event_id = w.event_id and r.replay > 0 and r.state in ('pending', 'parked', 'blocked')
           limit 1) is null;
end
$$;

-- What of the next `page` events above `after` may go because no route took their type anywhere when they were written: they have no deliveries by which
-- prunable would find them. A walk leaves out the UUIDs of version 7 that are younger than `keep`; one that sweeps goes on behind them, for UUIDs that
-- callers made in some other way. A page ends, too, behind the event with which it has 16 MB of what may go.
--
-- Whether an event was written before its type had a route is told by its own time and its id, which must both be from before: an hour longer, for
-- transactions that appended while the route was installed. Nothing that the walk along the deliveries has left behind is taken for one.
create or replace function outbox.prunable_unrouted(
  after uuid, keep interval, page integer, sweeping boolean, out event_ids uuid[], out reached uuid, out more boolean
)
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_mergejoin = off set enable_hashjoin = off
set plan_cache_mode = force_generic_plan
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  cutoff timestamptz := clock_timestamp() - keep;
  young uuid := outbox.uuid_at(cutoff);
  future uuid := outbox.uuid_at(clock_timestamp() + interval '1 day');
  destinations smallint[] := array(select g.number from outbox.destination g);
  -- A bound of the walk and not a filter: what is younger is not read.
  last uuid := case when sweeping then repeat('f', 32)::uuid else young end;
  unrouted text[] := array(select t.type from outbox.event_type t group by t.type having bool_and(t.destinations = '{}'));
  -- Types that have a route by now, each with the time before which its events may have no deliveries. Tombstones, which no catalogue has, came back from
  -- the archive without; they are written together with their deliveries, so none of those that have some is taken for one that has none.
  routed text[];
  since timestamptz[];
  late uuid[];
  behind uuid[];
  room bigint := 16000000;
  ids uuid[];
begin
  select array_agg(t.type), array_agg(t.since) into routed, since
    from (select 'outbox.skipped' as type, clock_timestamp() as since
          union all
          select t.type, max(t.routed_since) + interval '1 hour' from outbox.event_type t where t.routed_since is not null group by t.type) t;
  if sweeping and after >= young and after < future then
    after := future;
  end if;
  select array_agg(p.id) into ids
    from (select e.id from outbox.event e
           where e.id > after and e.id <= last
           order by e.id limit page) p;
  more := coalesce(array_length(ids, 1), 0) = page;
  reached := case when more then ids[page] when sweeping then young else greatest(after, ids[array_length(ids, 1)]) end;
  if outbox.replay_reads_events() then
    reached := after;
    more := false;
    return;
  end if;

  select array_agg(e.id order by e.id) filter (where e.type = any (unrouted)),
         array_agg(e.id) filter (where e.type <> all (unrouted))
    into event_ids, late
    from unnest(ids) as i (id)
   cross join lateral (select * from outbox.event e where e.id = i.id limit 1) e
   where e.occurred_at < cutoff
     and (e.type = any (unrouted) and (e.id < young or e.id >= future)
          or e.id < young and e.occurred_at < since[array_position(routed, e.type)]
             and e.id < outbox.uuid_at(since[array_position(routed, e.type)]))
     and (select true
            from unnest(destinations) as g (number)
           cross join lateral (
             select from outbox.delivery o
              where o.destination = g.number and o.aggregate_key = outbox.aggregate_key(e.aggregate_type, e.aggregate_id)
                and o.sequence = e.sequence and o.replay = 0 and o.state in ('pending', 'parked', 'blocked') and o.event_id = e.id
              limit 1) o
           limit 1) is null
     and (select true from outbox.delivery r
           where r.event_id = e.id and r.replay > 0 and r.state in ('pending', 'parked', 'blocked')
           limit 1) is null;
  if late is not null then
    behind := outbox.left_behind();
    if behind is not null then
      event_ids := array(
        select l.id from unnest(event_ids || late) as l (id) where l.id not in (select b.id from unnest(behind) as b (id)) order by l.id);
    end if;
  end if;

  for n in 1 .. coalesce(cardinality(event_ids), 0) loop
    if room <= 0 then
      reached := event_ids[n - 1];
      more := true;
      event_ids := event_ids[:n - 1];
      exit;
    end if;
    select room - octet_length(e.data::text) into room from outbox.event e where e.id = event_ids[n] limit 1;
  end loop;
end
$$;

create or replace function outbox.prune_unrouted(after uuid, keep interval, page integer, archived uuid[] default null)
returns table (events integer, reached uuid, more boolean)
language plpgsql security definer set enable_seqscan = off set enable_bitmapscan = off set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  walk outbox.walk;
  found_now record;
begin
  perform set_config('synchronous_commit', 'off', true);
  events := 0;
  select w.* into walk from outbox.walk w where w.name = 'unrouted' for update skip locked;
  if walk.mark::uuid is distinct from after then
    reached := coalesce(walk.mark::uuid, after);
    more := walk.mark is not null;
    return next;
    return;
  end if;
  select * into found_now from outbox.prunable_unrouted(after, keep, page, walk.sweeping);
  reached := found_now.reached;
  more := found_now.more;
  delete from outbox.event e
   where e.id = any (found_now.event_ids) and (archived is null or e.id in (select a.id from unnest(archived) as a (id)));
  get diagnostics events = row_count;
  update outbox.walk w set mark = prune_unrouted.reached::text, sweeping = w.sweeping and prune_unrouted.more where w.name = 'unrouted';
  -- All that was written before these types had a route was old when this walk began, and when the walks of a day before it did: of those, too, one may have
  -- left something out, where left_behind could not tell.
  if walk.sweeping and not more and not outbox.replay_reads_events() and outbox.left_behind() is not null then
    update outbox.event_type t set routed_since = null where t.routed_since < walk.swept_at - keep - interval '25 hours';
  end if;
  return next;
end
$$;

-- Installs the catalogue of a deployment:
--
--   { "source", "destinations": [{ "name", "kind", "group_id", "max_bytes" }],
--     "event_types": [{ "type", "schema_version", "aggregate_type", "when_parked", "destinations": [name, …], "sealed_paths"? }] }
--
-- Types, versions and destinations are added or changed, never removed: a destination that is not listed is retired. Routes become
-- exactly those listed, for the types that are listed. Where a version has to be sealed may change, but never becomes nowhere: an older deployment,
-- which knows nothing of it, must not open the door to clear text. Safe to repeat. Raises OB005 where a change would break the order of what is already on its way.
create or replace function outbox.install_catalogue(catalogue jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  broken text;
  unrouted text[];
begin
  -- One installation at a time; appends go on.
  perform from outbox.installation for update;

  select format('destination "%s" was installed as %s with group ids by %s; that is fixed, because messages of both kinds would overtake each other. Name a new destination', d.name, d.kind, d.group_id)
    into broken
    from outbox.destination d
    join jsonb_to_recordset(catalogue -> 'destinations') as n (name text, kind text, group_id text) using (name)
   where (d.kind, d.group_id) is distinct from (n.kind, n.group_id)
   limit 1;
  if broken is null then
    select format('type "%s" belongs to aggregate type "%s"; that is fixed. Name a new type', t.type, t.aggregate_type)
      into broken
      from outbox.event_type t
      join jsonb_to_recordset(catalogue -> 'event_types') as n (type text, aggregate_type text) using (type)
     where t.aggregate_type <> n.aggregate_type
     limit 1;
  end if;
  if broken is not null then
    raise exception '%. Nothing was installed.', broken using errcode = 'OB005';
  end if;

  update outbox.installation set source = catalogue ->> 'source';

  insert into outbox.destination (name, kind, group_id, max_bytes)
  select n.name, n.kind, n.group_id, n.max_bytes
    from jsonb_to_recordset(catalogue -> 'destinations') as n (name text, kind text, group_id text, max_bytes integer)
  on conflict (name) do update set max_bytes = excluded.max_bytes, retired_at = null;

  update outbox.destination d
     set retired_at = now()
   where d.retired_at is null
     and d.name not in (select n.name from jsonb_to_recordset(catalogue -> 'destinations') as n (name text));

  unrouted := array(select t.type from outbox.event_type t group by t.type having bool_and(t.destinations = '{}'));
  insert into outbox.event_type as t (type, schema_version, aggregate_type, when_parked, sealed_paths)
  select n.type, n.schema_version, n.aggregate_type, n.when_parked, nullif(n.sealed_paths, 'null')
    from jsonb_to_recordset(catalogue -> 'event_types')
      as n (type text, schema_version integer, aggregate_type text, when_parked text, sealed_paths jsonb)
  on conflict (type, schema_version) do update
    set when_parked = excluded.when_parked, sealed_paths = coalesce(excluded.sealed_paths, t.sealed_paths);

  with wanted as (
    select distinct n.type, d.number as destination
      from jsonb_to_recordset(catalogue -> 'event_types') as n (type text, destinations jsonb)
     cross join jsonb_array_elements_text(n.destinations) as r (name)
      join outbox.destination d on d.name = r.name
  ), gone as (
    delete from outbox.route r
     where r.type in (select n.type from jsonb_to_recordset(catalogue -> 'event_types') as n (type text))
       and not exists (select from wanted w where (w.type, w.destination) = (r.type, r.destination))
  )
  insert into outbox.route (type, destination)
  select type, destination from wanted
  on conflict do nothing;

  -- A statement of its own, to see what the one before has made of the routes.
  update outbox.event_type t
     set destinations = array(select r.destination from outbox.route r where r.type = t.type order by r.destination),
         max_bytes = (select min(d.max_bytes) from outbox.route r join outbox.destination d on d.number = r.destination where r.type = t.type);
  update outbox.event_type t set routed_since = clock_timestamp() where t.type = any (unrouted) and t.destinations <> '{}';

  insert into outbox.audit (act, detail)
  select 'install_catalogue', jsonb_build_object(
    'event_types', (select count(*) from jsonb_array_elements(catalogue -> 'event_types')),
    'destinations', (select count(*) from jsonb_array_elements(catalogue -> 'destinations')));
end
$$;

-- Takes up to `page` unsent deliveries of a cancelled replay out of it and returns how many; 0: none is left. They are set aside and not deleted: of an event
-- that came back from the archive there is no other delivery by which it would be pruned.
create or replace function outbox.clear_replay(number integer, page integer default 1000) returns integer
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  removed integer;
begin
  if not exists (select from outbox.replay r where r.number = clear_replay.number and r.state = 'cancelled') then
    raise exception 'replay % is not cancelled. Nothing was changed.', clear_replay.number using errcode = 'OB006';
  end if;
  update outbox.delivery d set state = 'set_aside'
   where d.position = any (array(
     select l.position from outbox.delivery l
      where l.replay = clear_replay.number and l.replay > 0 and l.state in ('pending', 'parked', 'blocked')
      limit page for update skip locked));
  get diagnostics removed = row_count;
  return removed;
end
$$;

-- Brings archived events back for a replay that waits for them: those in its scope that are missing, and that it sends, are written again, with the same
-- id and sequence, and with their deliveries: these keep them, and have them pruned when they are old. `events` as the archive has them, and json, so that
-- data stays the text that it was. Returns how many deliveries were written.
--
-- Refused is what cannot have been appended here: a place that its stream has not reached, an aggregate type or a version that its type does not have, a second
-- event in a place that this replay has one for. What the data says is believed, and not looked at for clear text: events from before a place had to be sealed are
-- in the archive as they were, and only they themselves say from when they are. So whoever has outbox_replayer, or may write to the archive, can
-- have this replay send events with other data, and none of a type, an aggregate or a sequence that there never was.
create or replace function outbox.return_events(number integer, events json) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off as $$
declare
  r outbox.replay;
  returned outbox.event[];
  unknown uuid;
  inserted uuid[];
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
   where outbox.is_in_scope(r.scope, e.type, e.aggregate_type, e.aggregate_id, e.id, e.occurred_at)
     and exists (select from outbox.route t where t.type = e.type and t.destination = r.destination);
  select e.id into unknown
    from unnest(returned) e
    left join outbox.stream s on (s.aggregate_type, s.aggregate_id) = (e.aggregate_type, e.aggregate_id)
   where s.sequence is null or s.sequence < e.sequence
      or not exists (
        select from outbox.event_type t
         where (t.type, t.schema_version, t.aggregate_type) = (e.type, e.schema_version, e.aggregate_type))
   limit 1;
  if found then
    raise exception 'event % was never appended here. Nothing was changed.', unknown using errcode = 'OB008';
  end if;
  select min(e.id::text)::uuid into unknown
    from unnest(returned) e
   group by e.aggregate_type, e.aggregate_id, e.sequence
  having count(distinct e.id) > 1
   limit 1;
  if not found then
    select e.id into unknown
      from unnest(returned) e
      join outbox.delivery d
        on d.replay = r.number and d.replay > 0 and d.aggregate_key = outbox.aggregate_key(e.aggregate_type, e.aggregate_id)
       and d.sequence = e.sequence and d.state in ('pending', 'parked', 'blocked')
     where d.event_id <> e.id
     limit 1;
  end if;
  if found then
    raise exception 'there is another event in the place of event %. Nothing was changed.', unknown using errcode = 'OB008';
  end if;
  with written_now as (
    insert into outbox.event (id, aggregate_type, aggregate_id, sequence, type, schema_version, data, metadata, occurred_at)
    select e.* from unnest(returned) e
    on conflict (id) do nothing
    returning event.id
  )
  select coalesce(array_agg(w.id), '{}') into inserted from written_now w;
  written := outbox.plan_deliveries(r, array(select e.id from unnest(returned) e));
  -- What the plan leaves out would have no delivery by which it is ever pruned.
  delete from outbox.event e
   where e.id = any (inserted)
     and not exists (
       select from outbox.delivery d
        where d.replay = r.number and d.replay > 0 and d.aggregate_key = outbox.aggregate_key(e.aggregate_type, e.aggregate_id)
          and d.sequence = e.sequence and d.state in ('pending', 'parked', 'blocked') and d.event_id = e.id);
  update outbox.replay p set planned = p.planned + written where p.number = r.number;
  return written;
end
$$;
