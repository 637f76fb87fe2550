-- What a reset has made void counts nowhere as processed. inbox.take_any removes such dedupe rows, but where the handler then failed they came back with the
-- rollback, and whoever looked next took the event for processed: its failure was not counted but acknowledged, and once held it was dropped.
--
-- Each of these also takes the lock that keeps a reset away, in mode any too, and before it locks a row: a drain that was under way could keep its effect
-- beside the replay's, and it and a reset could wait for each other.
set local role inbox_owner;

-- For a consumer that was never reset it costs one look. events: [{"id", "aggregate", "subject"}].
create function inbox.forget_void(consumer text, events json) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if exists (select from inbox.reset r where r.consumer = forget_void.consumer) then
    perform inbox.forget(forget_void.consumer, events);
  end if;
end
$$;
grant execute on function inbox.forget_void(text, json) to inbox_consumer;

create or replace function inbox.hold(consumer text, mode text, messages json)
returns table (place integer, held boolean)
language plpgsql
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  m record;
begin
  perform inbox.share_consumer(hold.consumer);
  if mode <> 'any' then
    perform inbox.lock_positions(hold.consumer, array_agg(g.aggregate), array_agg(g.subject))
       from json_to_recordset(messages) g (aggregate text, subject text) where g.aggregate <> ''
     having count(*) > 0;
  end if;
  perform inbox.forget_void(hold.consumer, messages);
  for m in
    select g.place - 1 as place, g.id, g.time, g.type, g.aggregate, g.subject, g.sequence, g.reason, g.body, g.error, g.blocks
      from rows from (json_to_recordset(messages) as (
             id uuid, "time" timestamptz, type text, aggregate text, subject text, sequence bigint, reason text, body text, error text,
             blocks boolean))
           with ordinality g (id, time, type, aggregate, subject, sequence, reason, body, error, blocks, place)
     order by g.place
  loop
    place := m.place;
    held := not exists (select from inbox.processed_event d where d.consumer = hold.consumer and d.event_id = m.id);
    if held then
      insert into inbox.held_event as h
        (consumer, event_id, event_time, aggregate_type, aggregate_id, sequence, type, reason, body, last_error, blocks)
      values (hold.consumer, m.id, coalesce(m.time, now()), m.aggregate, m.subject, m.sequence, m.type, m.reason, m.body, m.error,
              m.blocks)
      on conflict (consumer, event_id) do update
        set reason = excluded.reason, body = excluded.body, last_error = excluded.last_error, blocks = excluded.blocks,
            queued = false, wanted = null
        where h.queued or h.wanted is not null or excluded.reason in ('malformed', 'unknown-type', 'unknown-version', 'denied');
      if mode = 'strict' and not m.blocks and m.aggregate <> '' then
        update inbox.stream_position p set sequence = m.sequence
         where p.consumer = hold.consumer and p.aggregate_type = m.aggregate and p.aggregate_id = m.subject
           and inbox.follows(p.sequence, m.sequence);
      end if;
    end if;
    return next;
  end loop;
end
$$;

create or replace function inbox.count_failure(consumer text, mode text, message json, error text, at_most integer)
returns table (attempts integer, held boolean)
language plpgsql
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  m record;
begin
  select g.* into strict m
    from json_to_record(message) g (id uuid, "time" timestamptz, type text, aggregate text, subject text, sequence bigint, body text, blocks boolean);
  perform inbox.share_consumer(count_failure.consumer);
  if mode <> 'any' then
    perform inbox.lock_positions(count_failure.consumer, array[m.aggregate], array[m.subject]);
  end if;
  perform inbox.forget_void(count_failure.consumer, json_build_array(message));
  if exists (select from inbox.processed_event d where d.consumer = count_failure.consumer and d.event_id = m.id) then
    attempts := 0;
    held := true;
    return next;
    return;
  end if;
  insert into inbox.held_event as h
    (consumer, event_id, event_time, aggregate_type, aggregate_id, sequence, type, reason, body, attempts, last_error, queued, blocks)
  values (count_failure.consumer, m.id, m.time, m.aggregate, m.subject, m.sequence, m.type, 'failing', '', 1, error, true, m.blocks)
  on conflict (consumer, event_id) do update
    set attempts = h.attempts + 1, last_error = excluded.last_error, reason = 'failing', blocks = excluded.blocks,
        wanted = null,
        due_at = case when h.attempts + 1 >= at_most then 'infinity'
                      else clock_timestamp() + least(3600, 10 * 2 ^ h.attempts) * interval '1 second' end
  returning h.attempts, not h.queued into strict attempts, held;
  if attempts >= at_most and not held then
    update inbox.held_event h set queued = false, body = m.body, due_at = 'infinity'
     where h.consumer = count_failure.consumer and h.event_id = m.id;
    held := true;
  end if;
  if held and attempts >= at_most and mode = 'strict' and not m.blocks then
    update inbox.stream_position p set sequence = m.sequence
     where p.consumer = count_failure.consumer and p.aggregate_type = m.aggregate and p.aggregate_id = m.subject
       and inbox.follows(p.sequence, m.sequence);
  end if;
  return next;
end
$$;

create or replace function inbox.take_held(
  consumer text, mode text, starting_point text, aggregate_type text, aggregate_id text, at_most integer, waits boolean default true)
returns table (event_id uuid, body text, verdict text, age double precision)
language plpgsql
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  ids uuid[];
  verdicts text[];
  bodies text[];
  times timestamptz[];
  late uuid[];
  processed uuid[];
  furthest bigint;
begin
  perform set_config('inbox.taken', 'on', true), inbox.share_consumer(take_held.consumer);
  if not waits then
    perform from inbox.stream_position p
      where p.consumer = take_held.consumer and p.aggregate_type = take_held.aggregate_type and p.aggregate_id = take_held.aggregate_id
        for update skip locked;
    if not found and exists (
         select from inbox.stream_position p
          where p.consumer = take_held.consumer and p.aggregate_type = take_held.aggregate_type
            and p.aggregate_id = take_held.aggregate_id) then
      return;
    end if;
  end if;
  if mode <> 'any' and aggregate_type <> '' then
    perform inbox.lock_positions(take_held.consumer, array[take_held.aggregate_type], array[take_held.aggregate_id]);
  else
    -- Without a position, the rows themselves keep two that drain from taking the same.
    perform from inbox.held_event h
      where h.consumer = take_held.consumer and h.aggregate_type = take_held.aggregate_type
        and h.aggregate_id = take_held.aggregate_id and not h.queued
      order by h.sequence, h.event_id for update;
  end if;
  select coalesce(array_agg(r.event_id), '{}'), coalesce(array_agg(r.verdict), '{}'), coalesce(array_agg(r.body), '{}'),
         coalesce(array_agg(r.event_time), '{}'),
         max(r.sequence) filter (where r.verdict = 'apply' or r.verdict = 'skip' and mode = 'strict'),
         coalesce(array_agg(r.event_id) filter (where r.verdict = 'late'), '{}')
    into ids, verdicts, bodies, times, furthest, late
    from inbox.ready_events(consumer, mode, starting_point, aggregate_type, aggregate_id, at_most) r;
  if ids = '{}' then
    return;
  end if;
  perform inbox.forget_void(take_held.consumer, (
    select json_agg(json_build_object('id', i.id, 'aggregate', take_held.aggregate_type, 'subject', take_held.aggregate_id))
      from unnest(ids) i (id)));
  select coalesce(array_agg(d.event_id), '{}') into processed
    from inbox.processed_event d where d.consumer = take_held.consumer and d.event_id = any (ids);
  insert into inbox.processed_event (consumer, event_id, event_time)
  select take_held.consumer, r.id, r.time
    from unnest(ids, verdicts, times) r (id, verdict, time)
   where r.verdict in ('apply', 'skip')
   order by r.id
  on conflict do nothing;
  -- With their aggregate: by the ids alone the planner may choose an index of which it can use the consumer only.
  update inbox.held_event h set reason = 'late', blocks = false
   where h.consumer = take_held.consumer and h.aggregate_type = take_held.aggregate_type and h.aggregate_id = take_held.aggregate_id
     and h.event_id = any (late);
  delete from inbox.held_event h
   where h.consumer = take_held.consumer and h.aggregate_type = take_held.aggregate_type and h.aggregate_id = take_held.aggregate_id
     and h.event_id = any (ids) and h.event_id <> all (late);
  if mode <> 'any' and aggregate_type <> '' then
    update inbox.stream_position p set sequence = greatest(p.sequence, furthest)
     where p.consumer = take_held.consumer and p.aggregate_type = take_held.aggregate_type
       and p.aggregate_id = take_held.aggregate_id;
  end if;
  return query
    select r.id, r.body, case when r.id = any (processed) then 'repeat' else r.verdict end,
           extract(epoch from clock_timestamp() - r.time)::float8
      from unnest(ids, bodies, verdicts, times) with ordinality r (id, body, verdict, time, place) order by r.place;
end
$$;

create or replace function inbox.skip_held(consumer text, event_id uuid, reason text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  h inbox.held_event;
  as_mode text;
  start text;
  last bigint;
  done boolean;
begin
  perform inbox.begin_act(skip_held.reason);
  perform inbox.share_consumer(skip_held.consumer);
  h := inbox.lock_held(skip_held.consumer, skip_held.event_id);
  h.wanted := 'skip';
  select c.mode, c.starting_point into as_mode, start from inbox.consumer c where c.name = h.consumer;
  select coalesce(max(p.sequence), 0) into last from inbox.stream_position p
   where p.consumer = h.consumer and p.aggregate_type = h.aggregate_type and p.aggregate_id = h.aggregate_id;
  done := inbox.verdict(coalesce(as_mode, 'any'), start, last, h) is not null;
  if done then
    perform inbox.forget_void(h.consumer, json_build_array(json_build_object('id', h.event_id, 'aggregate', h.aggregate_type, 'subject', h.aggregate_id)));
    insert into inbox.processed_event (consumer, event_id, event_time) values (h.consumer, h.event_id, h.event_time)
    on conflict do nothing;
    delete from inbox.held_event w where w.consumer = h.consumer and w.event_id = h.event_id;
    -- In mode latest a position is what was applied: an older event may still be, as nothing came of this one.
    if as_mode = 'strict' and h.aggregate_type <> '' then
      update inbox.stream_position p set sequence = greatest(p.sequence, h.sequence)
       where p.consumer = h.consumer and p.aggregate_type = h.aggregate_type and p.aggregate_id = h.aggregate_id;
    end if;
  else
    update inbox.held_event w set wanted = 'skip' where w.consumer = h.consumer and w.event_id = h.event_id;
  end if;
  insert into inbox.audit (act, detail)
  values ('skip_held', inbox.describe(h) || jsonb_build_object('why', skip_held.reason, 'done', done));
  return done;
end
$$;
