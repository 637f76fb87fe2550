-- A replay is planned beside a backlog of the destination that it goes to.
--
-- What of an aggregate is not yet out was looked up by the destination alone where the planner took it for nothing: its statistics are of a time without
-- a backlog, as long as that is a small part of the table. With 20,000 waiting, each event of the plan read them all. Now only the index of what waits for each
-- aggregate gives the order that is asked for, and nothing may be sorted.
set local role outbox_owner;

-- Writes the deliveries of a replay for the events with these ids; those that it has already are left as they are.
--
-- Only what went live: an event that was written since, or is parked, or waits behind one that is, comes by itself, and not before those below it.
-- Types without a route to the destination are left out, and so are tombstones: what they stand for is sent itself, and may meet its policy again.
create or replace function outbox.plan_deliveries(r outbox.replay, ids uuid[]) returns bigint
language plpgsql set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set enable_sort = off
set plan_cache_mode = force_generic_plan as $$
declare
  written bigint;
begin
  with fitting as materialized (
    select e.id, e.sequence, outbox.aggregate_key(e.aggregate_type, e.aggregate_id) as key, outbox.replay_bytes(e, i.source) as bytes
      from outbox.event e, outbox.installation i
     where e.id = any (ids)
       and outbox.is_in_scope(r.scope, e.type, e.aggregate_type, e.aggregate_id, e.id, e.occurred_at)
       and exists (select from outbox.route t where t.type = e.type and t.destination = r.destination)
  )
  insert into outbox.delivery (event_id, destination, partition, replay, aggregate_key, sequence, bytes)
  select f.id, r.destination, get_byte(uuid_send(f.key), 0) & 63, r.number, f.key, f.sequence, f.bytes
    from fitting f
    left join lateral (
      select l.sequence
        from outbox.delivery l
       where l.destination = r.destination and l.aggregate_key = f.key
         and l.state in ('pending', 'parked', 'blocked') and l.replay = 0
       order by l.destination, l.aggregate_key, l.sequence
       limit 1) lowest on true
   where lowest.sequence is null or lowest.sequence > f.sequence
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
create or replace function outbox.plan_replay(number integer, page integer default 1000) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off set enable_sort = off
set plan_cache_mode = force_generic_plan as $$
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
        order by l.destination, l.aggregate_key, l.sequence
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
