-- A parked message of a replay is seen, and keeps only its own replay open.
--
-- It counted in no metric. What stood behind it stayed pending: relays walked over all of it every second, and never came to the next replay of the destination; while
-- one waited that was not planned yet, no event was pruned. Now it is blocked, as behind a live one, and a replay of which only such is left is passed over.
set local role outbox_owner;

-- As before, and: what is parked of replays counts as parked, too. Behind it nothing live waits.
create or replace function outbox.lag()
returns table (
  destination_name text, retired boolean, pending bigint, oldest_pending_age double precision, parked bigint, blocked bigint,
  orphaned bigint, relay_silence double precision)
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
  with head as materialized (
    select d.destination, d.aggregate_key, min(d.sequence) as sequence
      from outbox.delivery d
     where d.state = 'parked' and d.replay = 0
     group by d.destination, d.aggregate_key
  )
  select g.name, g.retired_at is not null,
         count(w.position) filter (where w.state = 'pending'),
         greatest(0, coalesce(extract(epoch from clock_timestamp() - min(w.created_at) filter (where w.state = 'pending')), 0))::float8,
         (select count(*) from outbox.delivery p where p.destination = g.number and p.state = 'parked'),
         count(w.position) filter (where w.state = 'blocked'),
         count(w.position) filter (where w.state = 'blocked' and (head.sequence is null or head.sequence > w.sequence)),
         (select extract(epoch from clock_timestamp() - max(r.seen_at)) from outbox.relay r)::float8
    from outbox.destination g
    left join outbox.delivery w
      on w.destination = g.number and w.replay = 0 and w.state in ('pending', 'parked', 'blocked')
    left join head
      on w.state = 'blocked' and head.destination = w.destination and head.aggregate_key = w.aggregate_key
   group by g.number
   order by g.name;
end;

-- Lets go what is blocked of an aggregate in a replay below its lowest parked delivery, all of it where none is parked. The caller holds the partition's lock.
create function outbox.release_replay_chain(number integer, aggregate_key uuid) returns integer
language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
#variable_conflict use_column
declare
  barrier bigint;
  released integer;
begin
  select min(d.sequence) into barrier
    from outbox.delivery d
   where d.replay = release_replay_chain.number and d.replay > 0 and d.aggregate_key = release_replay_chain.aggregate_key
     and d.state in ('pending', 'parked', 'blocked') and d.state = 'parked';
  update outbox.delivery d
     set state = 'pending'
   where d.replay = release_replay_chain.number and d.replay > 0 and d.aggregate_key = release_replay_chain.aggregate_key
     and d.state in ('pending', 'parked', 'blocked') and d.state = 'blocked' and (barrier is null or d.sequence < barrier);
  get diagnostics released = row_count;
  return released;
end
$$;

-- As before, of a replay too.
create or replace function outbox.is_behind_parked(d outbox.delivery) returns boolean
language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
begin
  return (select g.ordered from outbox.destination g where g.number = d.destination)
     and case when d.replay = 0
           then exists (
             select from outbox.delivery l
              where l.destination = d.destination and l.aggregate_key = d.aggregate_key and l.replay = 0
                and l.state = 'parked' and l.sequence < d.sequence)
           else exists (
             select from outbox.delivery l
              where l.replay = d.replay and l.replay > 0 and l.aggregate_key = d.aggregate_key
                and l.state in ('pending', 'parked', 'blocked') and l.state = 'parked' and l.sequence < d.sequence)
         end;
end
$$;

-- As before, of a replay too: what waited behind may go after it.
create or replace function outbox.redrive("position" bigint, reason text)
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
  unblocked := case when d.replay = 0 then outbox.release_chain(d.destination, d.aggregate_key) else outbox.release_replay_chain(d.replay, d.aggregate_key) end;
  insert into outbox.audit (act, detail)
  values ('redrive', outbox.describe(d) || jsonb_build_object('reason', reason, 'became', state, 'unblocked', unblocked));
  return next;
end
$$;

create or replace function outbox.skip("position" bigint, reason text)
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
  unblocked := case when d.replay = 0 then outbox.release_chain(d.destination, d.aggregate_key) else outbox.release_replay_chain(d.replay, d.aggregate_key) end;
  insert into outbox.audit (act, detail)
  values ('skip', outbox.describe(d) || jsonb_build_object('reason', reason, 'tombstone', tombstone, 'unblocked', unblocked));
  return next;
end
$$;

create or replace function outbox.set_aside("position" bigint, reason text, owner uuid default null) returns bigint
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
  else
    perform outbox.release_replay_chain(d.replay, d.aggregate_key);
  end if;
  insert into outbox.audit (act, detail)
  values ('set_aside', outbox.describe(d) || jsonb_build_object('reason', left(reason, 500), 'tombstone', tombstone));
  return tombstone;
end
$$;

-- As apply_parking with four arguments, for a replay.
create function outbox.apply_replay_parking(number integer, keys uuid[], reached bigint[], at_most integer)
returns table (key uuid, more boolean, reached_now bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
declare
  head record;
  slice record;
  ordered boolean;
  room integer := at_most;
begin
  select t.ordered into strict ordered
    from outbox.replay r join outbox.destination t on t.number = r.destination where r.number = apply_replay_parking.number;
  for key, reached_now in
    select k, max(r) from unnest(keys, reached) as u (k, r) group by k order by get_byte(uuid_send(k), 0) & 63, k
  loop
    more := room <= 0;
    if more then
      return next;
      continue;
    end if;
    perform from outbox.partition p where p.number = get_byte(uuid_send(key), 0) & 63 for update;
    if not ordered then
      for head in
        select d.position, d.last_error
          from outbox.delivery d
         where d.replay = apply_replay_parking.number and d.replay > 0 and d.aggregate_key = key
           and d.state in ('pending', 'parked', 'blocked') and d.state = 'parked' and outbox.policy_of(d.event_id) = 'skip'
         order by d.sequence
         limit room
      loop
        perform outbox.set_aside(head.position, head.last_error);
        room := room - 1;
      end loop;
      more := room <= 0;
      if more then
        return next;
      end if;
      continue;
    end if;
    select d.position, d.sequence, d.state, d.last_error, outbox.policy_of(d.event_id) as when_parked
      into head
      from outbox.delivery d
     where d.replay = apply_replay_parking.number and d.replay > 0 and d.aggregate_key = key
       and d.state in ('pending', 'parked', 'blocked')
     order by d.replay, d.aggregate_key, d.sequence
     limit 1;
    continue when not found;
    if head.state <> 'parked' or head.when_parked = 'skip' then
      return next;
    end if;
    continue when head.state = 'pending';
    if head.state = 'blocked' then
      room := room - outbox.release_replay_chain(number, key);
    elsif head.when_parked = 'skip' then
      perform outbox.set_aside(head.position, head.last_error);
      room := room - 1;
    else
      with changed as (
        update outbox.delivery d
           set state = 'blocked'
         where d.state = 'pending'
           and d.position = any (array(
             select l.position
               from outbox.delivery l
              where l.replay = apply_replay_parking.number and l.replay > 0 and l.aggregate_key = key
                and l.state in ('pending', 'parked', 'blocked') and l.state = 'pending'
                and l.sequence > greatest(reached_now, head.sequence)
              order by l.replay, l.aggregate_key, l.sequence
              limit room))
        returning d.sequence)
      select count(*) as blocked, max(c.sequence) as reached into slice from changed c;
      room := room - slice.blocked;
      more := room <= 0;
      if more then
        reached_now := coalesce(slice.reached, reached_now);
        return next;
      end if;
    end if;
  end loop;
end
$$;

-- For relays of the version before.
create or replace function outbox.apply_replay_parking(number integer, keys uuid[]) returns setof uuid
language sql volatile security definer set search_path = pg_catalog, pg_temp
begin atomic
  select p.key from outbox.apply_replay_parking(number, keys, array_fill(null::bigint, array[cardinality(keys)]), 2147483647) p;
end;

-- As before, and: what is blocked behind nothing is let go, where nothing is parked and nothing pending any more. A relay that was frozen may have sent a head that another
-- had parked, and died before it could say what follows from that.
create or replace function outbox.finish_replay(number integer) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
begin
  update outbox.delivery d
     set state = 'pending'
   where d.replay = finish_replay.number and d.replay > 0 and d.state in ('pending', 'parked', 'blocked') and d.state = 'blocked'
     and not exists (
       select from outbox.delivery l
        where l.replay = finish_replay.number and l.replay > 0 and l.state in ('pending', 'parked', 'blocked') and l.state <> 'blocked');
  if not found and not exists (
    select from outbox.delivery d
     where d.replay = finish_replay.number and d.replay > 0 and d.state in ('pending', 'parked', 'blocked')
  ) then
    update outbox.replay r set state = 'done', finished_at = clock_timestamp()
     where r.number = finish_replay.number and r.state = 'running' and r.planned_at is not null;
  end if;
  return exists (select from outbox.replay r where r.number = finish_replay.number and r.state = 'done');
end
$$;

-- The replay to a destination that relays work on: the lowest that runs and of which something is to be planned, sent or finished. Where something is parked, and the rest
-- blocked, it waits for a person, and others do not wait for that.
create function outbox.next_replay(destination smallint) returns table (number integer, per_second integer)
language plpgsql stable set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_mergejoin = off set enable_hashjoin = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
  return query
    select r.number, r.per_second
      from outbox.replay r
     where r.destination = next_replay.destination and r.state = 'running'
       and (r.planned_at is null
            or (select true from outbox.delivery d where d.replay = r.number and d.replay > 0 and d.state = 'pending' limit 1)
            or (select true from outbox.delivery d
                 where d.replay = r.number and d.replay > 0 and d.state in ('pending', 'parked', 'blocked') and d.state = 'parked'
                 order by d.replay, d.aggregate_key, d.sequence limit 1) is null)
     order by r.destination, r.number
     limit 1;
end
$$;

grant execute on function outbox.apply_replay_parking(integer, uuid[], bigint[], integer), outbox.next_replay(smallint) to outbox_relay;
