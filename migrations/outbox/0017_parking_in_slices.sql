-- What waits behind a parked head is blocked in slices, each a call and a transaction of its own. Behind the heads of a destination that has no way out any more
-- may wait millions: one statement for all of them met the relay's time-out, was rolled back, ended the run for every destination, and was begun again by the next.
set local role outbox_owner;

-- Blocks what is pending of an aggregate above a sequence, the lowest first, `at_most` rows. How many these are, and the highest.
create function outbox.block_behind(
  destination smallint, aggregate_key uuid, after bigint, at_most integer, out blocked integer, out reached bigint)
language plpgsql set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set enable_mergejoin = off set enable_hashjoin = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_column
begin
  with changed as (
    update outbox.delivery d
       set state = 'blocked'
     where d.state = 'pending'
       and d.position = any (array(
         select l.position
           from outbox.delivery l
          where l.destination = block_behind.destination and l.aggregate_key = block_behind.aggregate_key and l.replay = 0
            and l.state in ('pending', 'parked', 'blocked') and l.state = 'pending' and l.sequence > after
          order by l.destination, l.aggregate_key, l.sequence
          limit at_most))
    returning d.sequence)
  select count(*), max(c.sequence) into blocked, reached from changed c;
end
$$;

-- As apply_parking with two arguments, for some `at_most` rows: what is released at once, and set aside, may go beyond.
--
-- Returns keys that have to be looked up again, because their head is not parked any more, and (`more`) those of which this has more to do: the caller calls
-- again, and gives back in `reached`, beside each key, up to which sequence all is blocked (null: it does not know), which would else be looked for behind all that waits.
-- Meanwhile nothing of them is sent: their heads stay parked, whatever stands behind.
create function outbox.apply_parking(destination smallint, keys uuid[], reached bigint[], at_most integer)
returns table (key uuid, more boolean, reached_now bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set enable_hashjoin = off
set plan_cache_mode = force_generic_plan as $$
#variable_conflict use_variable
declare
  head record;
  first_behind outbox.delivery_state;
  slice record;
  ordered boolean;
  room integer := at_most;
begin
  select t.ordered into strict ordered from outbox.destination t where t.number = apply_parking.destination;
  -- The lock is the one that set_aside needs, taken at once and in the order of the partitions: two of these calls never wait for
  -- each other in a ring.
  for key, reached_now in
    select k, r from unnest(keys, reached) as u (k, r) order by get_byte(uuid_send(k), 0) & 63, k
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
         where d.destination = apply_parking.destination and d.aggregate_key = key and d.replay = 0 and d.state = 'parked'
           and outbox.policy_of(d.event_id) = 'skip'
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
     where d.destination = apply_parking.destination and d.aggregate_key = key and d.replay = 0
       and d.state in ('pending', 'parked', 'blocked')
     order by d.sequence
     limit 1;
    continue when not found;
    if head.state <> 'parked' or head.when_parked = 'skip' then
      return next;
    end if;
    continue when head.state = 'pending';
    if head.state = 'blocked' then
      room := room - outbox.release_chain(destination, key);
    elsif head.when_parked = 'skip' then
      perform outbox.set_aside(head.position, head.last_error);
      room := room - 1;
    else
      if reached_now is null then
        select d.state into first_behind
          from outbox.delivery d
         where d.destination = apply_parking.destination and d.aggregate_key = key and d.replay = 0
           and d.state in ('pending', 'parked', 'blocked') and d.sequence > head.sequence
         order by d.destination, d.aggregate_key, d.sequence
         limit 1;
        -- What is new stands behind all that was blocked before: found from the end, however many these are.
        if first_behind = 'blocked' then
          select d.sequence into reached_now
            from outbox.delivery d
           where d.destination = apply_parking.destination and d.aggregate_key = key and d.replay = 0
             and d.state in ('pending', 'parked', 'blocked') and d.state = 'blocked'
           order by d.destination desc, d.aggregate_key desc, d.sequence desc
           limit 1;
        end if;
        select * into slice from outbox.block_behind(destination, key, coalesce(reached_now, head.sequence), room);
        if slice.blocked = 0 then
          select * into slice from outbox.block_behind(destination, key, head.sequence, room);
        end if;
      else
        select * into slice from outbox.block_behind(destination, key, greatest(reached_now, head.sequence), room);
      end if;
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
create or replace function outbox.apply_parking(destination smallint, keys uuid[]) returns setof uuid
language sql volatile security definer set search_path = pg_catalog, pg_temp
begin atomic
  select p.key from outbox.apply_parking(destination, keys, array_fill(null::bigint, array[cardinality(keys)]), 2147483647) p;
end;

grant execute on function outbox.apply_parking(smallint, uuid[], bigint[], integer) to outbox_relay;
