set local role outbox_owner;

-- What lets a relay skip what has long been published. Its rows cannot be removed while anybody, anywhere on the server, holds a snapshot from
-- before, and until then stand in the indexes that a relay reads: with 144,000 of them a new relay's first look took 211 ms, and one of an
-- aggregate with 9,000 of them three times as long as without.
--
-- Both rest on this: what is published or set aside never becomes unfinished again, and an unfinished delivery keeps its transaction id
-- until an act gives it a younger one.

-- As 0005 describes it, and for each aggregate named in `floors` the look-up begins at that sequence: everything below it is out, as an
-- earlier look has seen.
create function outbox.find(
  destination smallint, ordered boolean, partitions smallint[],
  after_xid xid8, after_position bigint, open_xid xid8[], open_position bigint[],
  wake uuid[], wake_position bigint[], page integer, cut integer, floors jsonb
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
            and d.sequence >= coalesce((floors ->> m.key::text)::bigint, 0)
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

-- For relays of the version before.
create or replace function outbox.find(
  destination smallint, ordered boolean, partitions smallint[],
  after_xid xid8, after_position bigint, open_xid xid8[], open_position bigint[],
  wake uuid[], wake_position bigint[], page integer, cut integer
) returns table (
  key uuid, "position" bigint, event_id uuid, partition smallint, sequence bigint, attempts integer, run integer, bytes integer,
  state outbox.delivery_state, due_in_ms double precision, scan jsonb
)
language sql stable rows 500 set search_path = pg_catalog, pg_temp
as $$
  select * from outbox.find(destination, ordered, partitions, after_xid, after_position, open_xid, open_position,
                            wake, wake_position, page, cut, '{}')
$$;

-- Where a new relay begins to look, so that it need not walk over all that was ever sent: nothing that is pending at the destination was
-- written under a transaction id below `xid`, but by the transactions in `open`. Once true, it stays true.
create table outbox.low_water (
  destination smallint primary key,
  xid         xid8 not null,
  open        xid8[] not null,
  written_by  xid8 not null default pg_current_xact_id(),
  marked_at   timestamptz not null default clock_timestamp()
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
grant select on outbox.low_water to outbox_relay;

-- The mark of a destination, if this server made it, and lately: a logical copy brings the row along, but not the transaction ids that it
-- speaks of. There, no row was written by the transaction that it names.
create function outbox.low_water(destination smallint) returns table (xid xid8, open xid8[])
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
  select w.xid, w.open
    from outbox.low_water w
   where w.destination = low_water.destination
     and w.xmin = w.written_by::xid
     and w.xid <= pg_snapshot_xmax(pg_current_snapshot())
     and w.marked_at > clock_timestamp() - interval '10 minutes';
end;

-- The mark as of now, from one snapshot. It walks on from the last one, so it costs what was published since.
create function outbox.next_low_water(destination smallint) returns table (xid xid8, open xid8[])
language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_mergejoin = off set enable_hashjoin = off
set plan_cache_mode = force_generic_plan
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_variable
declare
  snapshot pg_snapshot := pg_current_snapshot();
  last record;
  still xid8;
begin
  select w.xid, w.open into last from outbox.low_water(destination) w;
  select d.xid into xid
    from outbox.delivery d
   where d.destination = next_low_water.destination and d.state = 'pending' and d.replay = 0
     and (d.xid, d.position) >= (coalesce(last.xid, '0'), 0)
   order by d.destination, d.xid, d.position
   limit 1;
  -- What this server has not reached was written elsewhere; nothing is said of it.
  xid := least(coalesce(xid, pg_snapshot_xmax(snapshot)), pg_snapshot_xmax(snapshot));
  open := '{}';
  foreach still in array coalesce(last.open, '{}') loop
    -- It has ended and left something that is still pending. Those that run are added below.
    if exists (select from outbox.delivery d
                where d.destination = next_low_water.destination and d.state = 'pending' and d.replay = 0 and d.xid = still) then
      open := open || still;
    end if;
  end loop;
  open := open || array(
    select x from pg_snapshot_xip(snapshot) as r (x) where x < xid and not x = any (open));
  return next;
end
$$;

-- Marks it for the relays that start from now on, and returns it.
create function outbox.mark_low_water(destination smallint) returns table (xid xid8, open xid8[])
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  return query
    insert into outbox.low_water as w (destination, xid, open)
    select mark_low_water.destination, n.xid, n.open from outbox.next_low_water(mark_low_water.destination) n
    on conflict (destination) do update
      set xid = excluded.xid, open = excluded.open, written_by = excluded.written_by, marked_at = excluded.marked_at
    returning w.xid, w.open;
end
$$;

grant execute on function
  outbox.find(smallint, boolean, smallint[], xid8, bigint, xid8[], bigint[], uuid[], bigint[], integer, integer, jsonb),
  outbox.low_water(smallint), outbox.mark_low_water(smallint)
  to outbox_relay;
