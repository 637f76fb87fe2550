set local role outbox_owner;

-- What relays read, as functions, because only so the plans are certain: with statistics that are missing or wrong, plain statements
-- were seen to take 20 s. `stable` gives all statements inside one snapshot: that of the call.

-- Finds what a relay has not met yet at one destination, in its partitions, by the difference of two snapshots:
--
--   1. pending rows above the cursor (xid, position), in that order, up to `page` rows
--   2. rows of the transactions that were open when the cursor passed them and are visible now
--   3. rows written under transaction ids that this server has not reached: it was restored from elsewhere
--   4. whatever the relay asks for by name: aggregates (`wake`) or, where nothing is ordered, positions (`wake_position`)
--
-- For an ordered destination, 1 to 4 only name aggregates. Of each of them, the result has everything that is not yet out, from the lowest
-- sequence up, at most `cut` rows. That look-up is what order rests on: a delivery may be visible while a lower one was met by nobody.
--
-- The first row of the result is about the scan itself (`key` is null): the snapshot, the last row of the page, and how many it had.
create function outbox.find(
  destination smallint, ordered boolean, partitions smallint[],
  after_xid xid8, after_position bigint, open_xid xid8[], open_position bigint[],
  wake uuid[], wake_position bigint[], page integer, cut integer
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
  snapshot pg_snapshot := pg_current_snapshot();
  page_position bigint[];
  page_xid xid8[];
  page_key uuid[];
  met uuid[];
  met_position bigint[];
  open_scan jsonb := '[]';
  open_rows integer;
  open_keys uuid[];
  open_positions bigint[];
  foreign_keys uuid[];
  foreign_positions bigint[];
  now_at timestamptz := clock_timestamp();
begin
  select array_agg(p.position), array_agg(p.xid), array_agg(p.aggregate_key) into page_position, page_xid, page_key
    from (select d.position, d.xid, d.aggregate_key
            from outbox.delivery d
           where d.destination = find.destination and d.state = 'pending' and d.replay = 0
             and (d.xid, d.position) > (after_xid, after_position) and d.xid < pg_snapshot_xmax(snapshot)
             and d.partition = any (partitions)
           order by d.destination, d.xid, d.position
           limit page) p;
  met := coalesce(page_key, '{}') || coalesce(wake, '{}');
  met_position := coalesce(page_position, '{}') || coalesce(wake_position, '{}');

  for i in 1 .. coalesce(array_length(open_xid, 1), 0) loop
    select array_agg(p.aggregate_key), array_agg(p.position), count(*) into open_keys, open_positions, open_rows
      from (select d.position, d.aggregate_key
              from outbox.delivery d
             where d.destination = find.destination and d.state = 'pending' and d.replay = 0
               and d.xid = open_xid[i] and d.position > open_position[i] and d.partition = any (partitions)
             order by d.destination, d.xid, d.position
             limit page) p;
    met := met || coalesce(open_keys, '{}');
    met_position := met_position || coalesce(open_positions, '{}');
    -- A transaction with more rows than a page keeps its place, or the rest of it would be lost.
    open_scan := open_scan || jsonb_build_array(jsonb_build_object(
      'xid', open_xid[i]::text, 'full', open_rows >= page, 'position', coalesce(open_positions[open_rows], open_position[i])::text));
  end loop;

  select array_agg(p.aggregate_key), array_agg(p.position) into foreign_keys, foreign_positions
    from (select d.position, d.aggregate_key
            from outbox.delivery d
           where d.destination = find.destination and d.state = 'pending' and d.replay = 0
             and d.xid >= pg_snapshot_xmax(snapshot) and d.partition = any (partitions)
           order by d.destination, d.xid, d.position
           limit page) p;
  met := met || coalesce(foreign_keys, '{}');
  met_position := met_position || coalesce(foreign_positions, '{}');

  scan := jsonb_build_object(
    'snapshot', snapshot::text, 'rows', coalesce(array_length(page_position, 1), 0),
    'xid', page_xid[array_length(page_xid, 1)]::text, 'position', page_position[array_length(page_position, 1)]::text,
    'open', open_scan);
  return next;
  scan := null;

  if ordered then
    return query
      select l.aggregate_key, l.position, l.event_id, l.partition, l.sequence, l.attempts, l.run, l.bytes, l.state,
             case when l.due_at <= now_at then 0 else date_part('epoch', l.due_at - now_at) * 1000 end, null::jsonb
        from (select distinct m.key from unnest(met) as m (key)) m
       cross join lateral (
         select d.aggregate_key, d.position, d.event_id, d.partition, d.sequence, d.attempts, d.run, d.bytes, d.state, d.due_at
           from outbox.delivery d
          where d.destination = find.destination and d.aggregate_key = m.key and d.replay = 0
            and d.state in ('pending', 'parked', 'blocked')
          order by d.destination, d.aggregate_key, d.sequence
          limit cut
       ) l;
  else
    return query
      select d.aggregate_key, d.position, d.event_id, d.partition, d.sequence, d.attempts, d.run, d.bytes, d.state,
             case when d.due_at <= now_at then 0 else date_part('epoch', d.due_at - now_at) * 1000 end, null::jsonb
        from (select distinct m.at from unnest(met_position) as m (at)) m
        -- The limit keeps the planner from a join that walks through the whole table when it believes that to be empty.
       cross join lateral (select * from outbox.delivery where delivery.position = m.at limit 1) d
       where d.state = 'pending' and d.replay = 0;
  end if;
end
$$;

-- The events behind what was found.
create function outbox.load(ids uuid[]) returns table (
  id uuid, type text, schema_version integer, aggregate_type text, aggregate_id text, data text, metadata json, occurred_at text
)
language plpgsql stable rows 500
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_mergejoin = off set enable_hashjoin = off
set plan_cache_mode = force_generic_plan
set search_path = pg_catalog, pg_temp
as $$
begin
  return query
    select e.id, e.type, e.schema_version, e.aggregate_type, e.aggregate_id, e.data::text, e.metadata,
           to_char(e.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
      from outbox.event e
      -- No join: believing that the table is empty, the planner would walk through all of it.
     where e.id = any (ids);
end
$$;

-- What a parked head means for those behind it: with policy `block` they leave the pending index (and so are no lag), with `skip`
-- the head is set aside. And the other way round: those that are blocked behind nothing are pending again; a relay that was frozen may
-- report a head as published that another one parked meanwhile. Each statement of this volatile function has a snapshot of its own,
-- taken after the partition is locked, and two of these calls exclude each other: an operator who redrives the head at the same
-- moment, or a relay that publishes it, is waited for, and then seen. It runs as its owner, because a relay may not touch `xid`.
--
-- At a destination without order nothing follows a parked delivery: there, those of types with policy `skip` are set aside.
--
-- Returns the keys that have to be looked up again, because their head is not parked any more.
create function outbox.apply_parking(destination smallint, keys uuid[]) returns setof uuid
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  key uuid;
  head record;
  last_blocked bigint;
  ordered boolean;
begin
  select t.ordered into strict ordered from outbox.destination t where t.number = apply_parking.destination;
  -- The lock is the one that set_aside needs, taken at once and in the order of the partitions: two of these calls never wait for
  -- each other in a ring.
  for key in select k from unnest(keys) as u (k) order by get_byte(uuid_send(k), 0) & 63 loop
    perform from outbox.partition p where p.number = get_byte(uuid_send(key), 0) & 63 for update;
    if not ordered then
      for head in
        select d.position, d.last_error
          from outbox.delivery d
         where d.destination = apply_parking.destination and d.aggregate_key = key and d.replay = 0 and d.state = 'parked'
           and outbox.policy_of(d.event_id) = 'skip'
         order by d.sequence
      loop
        perform outbox.set_aside(head.position, head.last_error);
      end loop;
      continue;
    end if;
    select d.position, d.sequence, d.state, d.last_error, outbox.policy_of(d.event_id) as when_parked
      into head
      from outbox.delivery d
     where d.destination = apply_parking.destination and d.aggregate_key = key and d.replay = 0
       and d.state in ('pending', 'parked', 'blocked')
     order by d.sequence
     limit 1;
    continue when not found;
    if head.state <> 'parked' or head.when_parked = 'skip' then
      return next key;
    end if;
    continue when head.state = 'pending';
    if head.state = 'blocked' then
      perform outbox.release_chain(destination, key);
    elsif head.when_parked = 'skip' then
      perform outbox.set_aside(head.position, head.last_error);
    else
      -- What is new stands behind all that was blocked before: found from the end, however many these are.
      select d.sequence into last_blocked
        from outbox.delivery d
       where d.destination = apply_parking.destination and d.aggregate_key = key and d.replay = 0
         and d.state in ('pending', 'parked', 'blocked') and d.state = 'blocked'
       order by d.sequence desc
       limit 1;
      update outbox.delivery d
         set state = 'blocked'
       where d.destination = apply_parking.destination and d.aggregate_key = key and d.replay = 0
         and d.state = 'pending' and d.sequence > coalesce(last_blocked, head.sequence);
      if not found then
        update outbox.delivery d
           set state = 'blocked'
         where d.destination = apply_parking.destination and d.aggregate_key = key and d.replay = 0
           and d.state = 'pending' and d.sequence > head.sequence;
      end if;
    end if;
  end loop;
end
$$;

grant execute on function outbox.find(smallint, boolean, smallint[], xid8, bigint, xid8[], bigint[], uuid[], bigint[], integer, integer),
  outbox.load(uuid[]), outbox.apply_parking(smallint, uuid[]) to outbox_relay;
