-- What is no longer needed goes: events that are out everywhere, with their deliveries, a page at a time.
--
--   outbox_janitor   calls begin_walk, prune and prune_unrouted, which delete nothing that is needed; touches no table of events itself
--   outbox_archiver  reads what would be deleted, and nothing else, for an archive: a janitor without one need not see data
--
-- An event may go when each of its deliveries was published longer than `keep` ago (or set aside, and written that long ago) and no replay
-- has still to send it. So the event of a transaction that was open for longer than `keep` is safe: it is not published yet. What is
-- pending, parked or blocked holds its event, however old. outbox.stream and outbox.audit are never pruned: a sequence that was used must
-- not come again, and acts are few.
do $$
begin
  if not exists (select from pg_roles where rolname = 'outbox_archiver') then
    create role outbox_archiver nologin;
  end if;
end
$$;

set local role outbox_owner;
grant usage on schema outbox to outbox_archiver;
revoke delete on outbox.event, outbox.delivery from outbox_janitor;

-- How far the walks have come. No index tells what is old, because each append would pay for it: positions, and UUIDs of version 7, grow with time, so
-- a walk along the primary key that remembers where it was needs none. What it had to leave behind is met by the next one that
-- starts at the beginning (`sweeping`). The row's lock makes janitors take turns, a page each.
create table outbox.walk (
  name     text primary key check (name in ('deliveries', 'unrouted')),
  mark     text not null,
  sweeping boolean not null default false,
  swept_at timestamptz not null default '-infinity' -- when the last walk from the beginning began
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
insert into outbox.walk (name, mark) values ('deliveries', '0'), ('unrouted', '00000000-0000-0000-0000-000000000000');
grant select on outbox.walk to outbox_janitor, outbox_monitor;

-- What is pruned lies together, so vacuumed pages are used again as a whole. The default would wait for a fifth of the table.
alter table outbox.event set (autovacuum_vacuum_scale_factor = 0.05);

-- Finds by its event what a replay has still to send. Nothing live is in it, so neither append nor settlement writes to it.
create index delivery_replaying on outbox.delivery (event_id) where replay > 0 and state in ('pending', 'parked', 'blocked');

-- Whether some replay has still to read events that it has no deliveries for yet. While it is so, no event goes. To begin one, lock the rows of
-- outbox.walk `for update` first: that waits for the page that is being pruned.
create function outbox.replay_reads_events() returns boolean
language sql stable set search_path = pg_catalog, pg_temp
return false;

-- The smallest UUID of version 7 of a moment.
create function outbox.uuid_at(moment timestamptz) returns uuid
language sql stable set search_path = pg_catalog, pg_temp
return (lpad(to_hex(greatest(0, extract(epoch from moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;

-- Where a walk goes on, or the beginning where the last walk from there began `sweep_every` ago.
create function outbox.begin_walk(name text, sweep_every interval) returns text
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  begun text;
begin
  update outbox.walk w
     set sweeping = true, swept_at = clock_timestamp(),
         mark = case w.name when 'deliveries' then '0' else '00000000-0000-0000-0000-000000000000' end
   where w.name = begin_walk.name and not w.sweeping and w.swept_at < clock_timestamp() - sweep_every;
  select w.mark into strict begun from outbox.walk w where w.name = begin_walk.name;
  return begun;
end
$$;

-- What of the next `page` deliveries above `after` may go. `event_ids` and `positions` belong together, one pair for each delivery.
-- `reached` is where the page ends: before the first that is younger than `keep`.
--
-- Deliveries of one event are written by one append, one right after the other: `around` the page is looked for those that others' came between.
-- What is not out is found wherever it is, by delivery_chain. Planned without choice, because statistics that are missing or wrong would
-- have it walk through the whole table.
create function outbox.prunable(
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
  cutoff timestamptz := clock_timestamp() - keep;
  destinations smallint[] := array(select g.number from outbox.destination g);
  seen integer;
  young bigint;
  oldest timestamptz;
begin
  select max(p.position), count(*), min(p.position) filter (where p.created_at >= cutoff), min(p.created_at)
    into reached, seen, young, oldest
    from (select d.position, d.created_at from outbox.delivery d where d.position > after order by d.position limit page) p;
  reached := coalesce(young - 1, reached, after);
  more := young is null and seen = page;
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

-- What of the next `page` events above `after` may go because no route ever takes their type anywhere: they have no deliveries by which
-- prunable would find them. A walk leaves out the UUIDs of version 7 that are younger than `keep`; one that sweeps goes on behind them, for UUIDs that
-- callers made in some other way.
create function outbox.prunable_unrouted(
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
  ids uuid[];
begin
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

  select array_agg(e.id) into event_ids
    from unnest(ids) as i (id)
   cross join lateral (select * from outbox.event e where e.id = i.id limit 1) e
   where e.type = any (unrouted) and e.occurred_at < cutoff and (e.id < young or e.id >= future)
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
end
$$;

-- Deletes what may go of the next page, in the caller's transaction, which is best this call alone, and moves the mark. With `archived`, only
-- events that are listed there. Where another janitor has the turn, or has moved the mark, it deletes nothing and says where the mark is.
--
-- The commit need not reach the disk: what a crash brings back is deleted, and archived, once more.
create function outbox.prune(after bigint, keep interval, page integer, archived uuid[] default null)
returns table (events integer, deliveries integer, reached bigint, more boolean, behind_seconds double precision)
language plpgsql security definer set enable_seqscan = off set enable_bitmapscan = off set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  mark bigint;
  found_now record;
  ids uuid[];
  positions bigint[];
begin
  perform set_config('synchronous_commit', 'off', true);
  events := 0;
  deliveries := 0;
  behind_seconds := 0;
  select w.mark::bigint into mark from outbox.walk w where w.name = 'deliveries' for update skip locked;
  if mark is distinct from after then
    reached := coalesce(mark, after);
    more := mark is not null;
    return next;
    return;
  end if;
  select * into found_now from outbox.prunable(after, keep, page);
  reached := found_now.reached;
  more := found_now.more;
  behind_seconds := found_now.behind_seconds;
  ids := found_now.event_ids;
  positions := found_now.positions;
  if archived is not null then
    select array_agg(u.id), array_agg(u.position) into ids, positions
      from unnest(ids, positions) as u (id, position)
     where u.id in (select a.id from unnest(archived) as a (id))
        -- Of a replay that was sent after its event had gone.
        or (select true from outbox.event e where e.id = u.id limit 1) is null;
  end if;
  delete from outbox.delivery d where d.position = any (positions);
  get diagnostics deliveries = row_count;
  delete from outbox.event e where e.id = any (ids);
  get diagnostics events = row_count;
  update outbox.walk w set mark = prune.reached::text, sweeping = w.sweeping and prune.more where w.name = 'deliveries';
  return next;
end
$$;

create function outbox.prune_unrouted(after uuid, keep interval, page integer, archived uuid[] default null)
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
  return next;
end
$$;

-- The events that prune, and prune_unrouted, would delete of the next page, as they are stored, each with its deliveries.
create function outbox.archivable(after bigint, keep interval, page integer)
returns table (
  id uuid, aggregate_type text, aggregate_id text, sequence bigint, type text, schema_version integer, data text, metadata text,
  occurred_at text, deliveries jsonb)
language plpgsql stable security definer set enable_seqscan = off set enable_bitmapscan = off set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  found_now record;
begin
  select * into found_now from outbox.prunable(after, keep, page);
  return query
    with sent as (
      select d.event_id, jsonb_agg(jsonb_build_object(
               'destination', g.name, 'state', d.state, 'published_at', d.published_at, 'message_id', d.message_id) order by d.position) as deliveries
        from outbox.delivery d join outbox.destination g on g.number = d.destination
       where d.position = any (found_now.positions)
       group by d.event_id
    ), event as materialized (
      select e.* from outbox.event e where e.id = any (found_now.event_ids)
    )
    select e.id, e.aggregate_type, e.aggregate_id, e.sequence, e.type, e.schema_version, e.data::text, e.metadata::text,
           to_char(e.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), s.deliveries
      from event e join sent s on s.event_id = e.id
     order by e.id;
end
$$;

create function outbox.archivable_unrouted(after uuid, keep interval, page integer)
returns table (
  id uuid, aggregate_type text, aggregate_id text, sequence bigint, type text, schema_version integer, data text, metadata text,
  occurred_at text, deliveries jsonb)
language plpgsql stable security definer set enable_seqscan = off set enable_bitmapscan = off set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  found_now record;
begin
  select p.* into found_now
    from outbox.walk w cross join lateral outbox.prunable_unrouted(after, keep, page, w.sweeping) p
   where w.name = 'unrouted';
  return query
    select e.id, e.aggregate_type, e.aggregate_id, e.sequence, e.type, e.schema_version, e.data::text, e.metadata::text,
           to_char(e.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '[]'::jsonb
      from outbox.event e
     where e.id = any (found_now.event_ids)
     order by e.id;
end
$$;

grant execute on function
  outbox.begin_walk(text, interval), outbox.prune(bigint, interval, integer, uuid[]), outbox.prune_unrouted(uuid, interval, integer, uuid[])
  to outbox_janitor;
grant execute on function outbox.archivable(bigint, interval, integer), outbox.archivable_unrouted(uuid, interval, integer) to outbox_archiver;
