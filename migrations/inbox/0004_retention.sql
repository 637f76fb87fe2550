-- Dedupe rows go by their event's own time: once no queue can bring the event any more, and consumers hold what is older than that.
--
--   inbox_janitor  calls begin_walk, pruned_consumers, prune and prune_counted; touches no table itself
--
-- With a dedupe row go the recorded answers of its event's finished calls. Counted failures of an event whose message the queue has dropped meanwhile go
-- by the event's time, too. Never pruned: positions, held events and what is recorded for them, calls that are not done, and whatever belongs to a consumer that accepts a replay: what it applies now may be older than any window.
do $$
begin
  if not exists (select from pg_roles where rolname = 'inbox_janitor') then
    create role inbox_janitor nologin;
  end if;
end
$$;

set local role inbox_owner;
grant usage on schema inbox to inbox_janitor;

-- How far the walk through each consumer's dedupe rows has come. UUIDs of version 7 grow with time, so a walk along the primary key finds what is
-- old without an index for it; what it left behind is met by the next one from the beginning.
create table inbox.walk (
  consumer text primary key,
  mark     uuid not null default '00000000-0000-0000-0000-000000000000',
  sweeping boolean not null default false,
  swept_at timestamptz not null default '-infinity' -- when the last walk from the beginning began
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
grant select on inbox.walk to inbox_janitor;

alter table inbox.processed_event set (autovacuum_vacuum_scale_factor = 0.05);
create index held_event_counted on inbox.held_event (event_time) where queued;

-- The smallest UUID of version 7 of a moment.
create function inbox.uuid_at(moment timestamptz) returns uuid
language sql stable set search_path = pg_catalog, pg_temp
return (lpad(to_hex(greatest(0, extract(epoch from moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid;

-- Who has dedupe rows, whether its function still exists or not. From name to name, not through the rows between.
create function inbox.pruned_consumers() returns setof text
language sql stable security definer set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set search_path = pg_catalog, pg_temp
begin atomic
  with recursive named (consumer) as (
    (select p.consumer from inbox.processed_event p order by p.consumer limit 1)
    union all
    select (select p.consumer from inbox.processed_event p where p.consumer > n.consumer order by p.consumer limit 1)
      from named n
     where n.consumer is not null
  )
  select n.consumer from named n where n.consumer is not null;
end;

-- Where the consumer's walk goes on, or the beginning where the last walk from there began `sweep_every` ago.
create function inbox.begin_walk(consumer text, sweep_every interval) returns uuid
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  begun uuid;
begin
  insert into inbox.walk (consumer) values (begin_walk.consumer) on conflict do nothing;
  update inbox.walk w
     set sweeping = true, swept_at = clock_timestamp(), mark = '00000000-0000-0000-0000-000000000000'
   where w.consumer = begin_walk.consumer and not w.sweeping and w.swept_at < clock_timestamp() - sweep_every;
  select w.mark into strict begun from inbox.walk w where w.consumer = begin_walk.consumer;
  return begun;
end
$$;

-- Deletes what is older than `keep` of the consumer's next `page` dedupe rows above `after`, and moves the mark. Where another janitor has the turn, or
-- has moved the mark, it deletes nothing and says where the mark is. A walk ends before UUIDs of version 7 that are younger than `keep`; one
-- that sweeps goes on behind them. The commit need not reach the disk: what a crash brings back is deleted again.
create function inbox.prune(consumer text, after uuid, keep interval, page integer)
returns table (processed integer, calls integer, reached uuid, more boolean, behind_seconds double precision)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set plan_cache_mode = force_generic_plan
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  cutoff timestamptz := clock_timestamp() - keep;
  young uuid := inbox.uuid_at(cutoff);
  future uuid := inbox.uuid_at(clock_timestamp() + interval '1 day');
  walk inbox.walk;
  last uuid;
  accepted integer;
  ids uuid[];
  old uuid[];
begin
  perform set_config('synchronous_commit', 'off', true);
  processed := 0;
  calls := 0;
  behind_seconds := 0;
  select w.* into walk from inbox.walk w where w.consumer = prune.consumer for update skip locked;
  if walk.mark is distinct from after then
    reached := coalesce(walk.mark, after);
    more := walk.mark is not null;
    return next;
    return;
  end if;
  -- Whoever is about to accept a replay waits for this page, or this page for that.
  select c.replay_accepted into accepted from inbox.consumer c where c.name = prune.consumer for share;
  if accepted > 0 then
    reached := after;
    more := false;
    return next;
    return;
  end if;
  if walk.sweeping and after >= young and after < future then
    after := future;
  end if;
  -- A bound of the walk and not a filter: what is younger is not read.
  last := case when walk.sweeping then repeat('f', 32)::uuid else young end;
  select array_agg(p.event_id), array_agg(p.event_id) filter (where p.event_time < cutoff) into ids, old
    from (select e.event_id, e.event_time from inbox.processed_event e
           where e.consumer = prune.consumer and e.event_id > after and e.event_id <= last
           order by e.consumer, e.event_id limit page) p;
  more := coalesce(array_length(ids, 1), 0) = page;
  reached := case when more then ids[page] when walk.sweeping then young else greatest(after, ids[array_length(ids, 1)]) end;
  if more and reached < young then
    -- 48 bits of milliseconds are what UUIDs of version 7 begin with.
    behind_seconds := greatest(0, extract(epoch from cutoff)
      - ('x' || lpad(left(replace(reached::text, '-', ''), 12), 16, '0'))::bit(64)::bigint / 1000.0);
  end if;

  delete from inbox.processed_event e
   where e.consumer = prune.consumer and e.event_id = any (old)
     and (select true from inbox.held_event h where h.consumer = e.consumer and h.event_id = e.event_id limit 1) is null;
  get diagnostics processed = row_count;
  delete from inbox.external_call c
   where c.consumer = prune.consumer and c.event_id = any (old) and c.state = 'done'
     and (select true from inbox.held_event h where h.consumer = c.consumer and h.event_id = c.event_id limit 1) is null;
  get diagnostics calls = row_count;
  update inbox.walk w set mark = prune.reached, sweeping = w.sweeping and prune.more where w.consumer = prune.consumer;
  return next;
end
$$;

-- Deletes at most `page` rows that only count failures of events older than `keep`: no queue has their messages any more. Returns how many. What a
-- consumer is just counting is left for the next run.
create function inbox.prune_counted(keep interval, page integer) returns integer
language plpgsql security definer
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_generic_plan
set search_path = pg_catalog, pg_temp as $$
declare
  deleted integer;
begin
  perform set_config('synchronous_commit', 'off', true);
  delete from inbox.held_event h
   using (select c.consumer, c.event_id from inbox.held_event c
           where c.queued and c.event_time < clock_timestamp() - keep
             and coalesce((select n.replay_accepted from inbox.consumer n where n.name = c.consumer), 0) = 0
           order by c.event_time limit page
             for update of c skip locked) old
   where h.consumer = old.consumer and h.event_id = old.event_id;
  get diagnostics deleted = row_count;
  return deleted;
end
$$;

grant execute on function inbox.prune_counted(interval, integer) to inbox_janitor;
grant execute on function inbox.pruned_consumers(), inbox.begin_walk(text, interval), inbox.prune(text, uuid, interval, integer) to inbox_janitor;
