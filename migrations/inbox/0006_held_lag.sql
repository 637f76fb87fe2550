-- How much consumers hold, and for how long, for a monitor that needs no consumer to be alive.
--
--   inbox_monitor  calls held_lag, and sees nothing else: neither bodies nor ids
do $$
begin
  if not exists (select from pg_roles where rolname = 'inbox_monitor') then
    create role inbox_monitor nologin;
  end if;
end
$$;

set local role inbox_owner;
grant usage on schema inbox to inbox_monitor;

-- Of every consumer, how many events it holds, and since when (seconds; 0: none) it holds the oldest of those that wait
--   for_person  for a person or a deployment; until the consumer has done what an operator decided
--   for_turn    behind a gap, behind one that is gone meanwhile, or, since it is due, for another try
-- What is behind one that waits for a person is in neither: that one tells. Nor is what waits for the end of a replay, which takes as long as it takes.
create function inbox.held_lag()
returns table (consumer_name text, held bigint, for_person double precision, for_turn double precision)
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
  -- The heads are gathered once and joined, as in the outbox: a search for each waiting event would walk the chain of its aggregate. 100,000 events of
  -- 1 KB take 0.9 s.
  with waiting as materialized (
    select h.consumer, h.aggregate_type, h.aggregate_id, h.sequence, h.blocks,
           greatest(h.held_at, case when h.due_at < 'infinity' then h.due_at end) as since,
           case when h.reason = 'replay' then 'replay'
                when h.reason in ('gap', 'blocked') or h.reason = 'failing' and h.due_at < 'infinity' and h.wanted is null then 'turn'
                else 'person' end as waits_for
      from inbox.held_event h
     where not h.queued
  ), head as materialized (
    select w.consumer, w.aggregate_type, w.aggregate_id, min(w.sequence) as sequence
      from waiting w
     where w.waits_for = 'person' and w.blocks and w.aggregate_type <> ''
     group by w.consumer, w.aggregate_type, w.aggregate_id
  )
  select c.name, count(w.consumer),
         greatest(0, coalesce(extract(epoch from clock_timestamp() - min(w.since) filter (where w.waits_for = 'person')), 0))::float8,
         greatest(0, coalesce(extract(epoch from clock_timestamp() - min(w.since) filter (
           where w.waits_for = 'turn' and (head.sequence is null or head.sequence > w.sequence))), 0))::float8
    from inbox.consumer c
    left join waiting w on w.consumer = c.name
    left join head
      on head.consumer = w.consumer and head.aggregate_type = w.aggregate_type and head.aggregate_id = w.aggregate_id
   group by c.name;
end;

grant execute on function inbox.held_lag() to inbox_monitor;
