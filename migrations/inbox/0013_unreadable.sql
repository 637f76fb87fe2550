-- What a consumer cannot read keeps to its order like everything else.
set local role inbox_owner;

-- As before, and of what cannot be read:
--   * `held` is null: it belongs to a replay (`replay`) that the consumer takes no part in, and is nobody's business. What is held already stays so: the replay may have
--     ended since.
--   * a message that has come again (`arrived`) undoes no skip and no release that an operator has asked for and the consumer has not done yet.
create or replace function inbox.hold(consumer text, mode text, messages json)
returns table (place integer, held boolean)
language plpgsql
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  m record;
  held_as text;
  bars boolean;
begin
  perform inbox.share_consumer(hold.consumer);
  if mode <> 'any' then
    perform inbox.lock_positions(hold.consumer, array_agg(g.aggregate), array_agg(g.subject))
       from json_to_recordset(messages) g (aggregate text, subject text) where g.aggregate <> ''
     having count(*) > 0;
  end if;
  perform inbox.forget_void(hold.consumer, messages);
  for m in
    select g.place - 1 as place, g.id, g.time, g.type, g.aggregate, g.subject, g.sequence, g.reason, g.body, g.error, g.blocks, g.replay, g.arrived
      from rows from (json_to_recordset(messages) as (
             id uuid, "time" timestamptz, type text, aggregate text, subject text, sequence bigint, reason text, body text, error text,
             blocks boolean, replay integer, arrived boolean))
           with ordinality g (id, time, type, aggregate, subject, sequence, reason, body, error, blocks, replay, arrived, place)
     order by g.place
  loop
    place := m.place;
    held := case
      when m.replay is not null
           and (select s.standing from inbox.standing(hold.consumer, m.aggregate, m.subject, m.replay) s) = 'not-accepted'
           and not exists (select from inbox.held_event h where h.consumer = hold.consumer and h.event_id = m.id and not h.queued)
        then null
      else not exists (select from inbox.processed_event d where d.consumer = hold.consumer and d.event_id = m.id) end;
    if held then
      held_as := case
        when m.reason in ('malformed', 'unknown-type', 'unknown-version', 'denied')
             and m.time < (select p.before from inbox.pruned p where p.consumer = hold.consumer)
             and (select s.standing from inbox.standing(hold.consumer, m.aggregate, m.subject, null) s) = 'live'
             and not exists (select from inbox.held_event h where h.consumer = hold.consumer and h.event_id = m.id and h.reason <> 'too-old')
          then 'too-old'
        else m.reason end;
      bars := m.blocks and not inbox.is_behind(hold.consumer, m.aggregate, m.subject, m.sequence);
      insert into inbox.held_event as h
        (consumer, event_id, event_time, aggregate_type, aggregate_id, sequence, type, reason, body, last_error, blocks)
      values (hold.consumer, m.id, coalesce(m.time, now()), m.aggregate, m.subject, m.sequence, m.type, held_as, m.body, m.error,
              bars)
      on conflict (consumer, event_id) do update
        set reason = excluded.reason, body = excluded.body, last_error = excluded.last_error, blocks = excluded.blocks,
            queued = false, wanted = null
        where (h.queued or h.wanted is not null or excluded.reason in ('malformed', 'unknown-type', 'unknown-version', 'denied'))
          and (m.arrived and h.wanted in ('skip', 'release')) is not true;
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

-- As before, and: what a strict consumer has passed, because it did not know type or version, is late when it is tried again, and not applied out of order by itself. The
-- position is locked then.
create or replace function inbox.verdict(mode text, starting_point text, "position" bigint, h inbox.held_event) returns text
language sql stable
return case
  when h.queued then null
  when mode = 'strict' and h.aggregate_type <> '' and h.sequence > position and not inbox.follows(position, h.sequence)
       and not (position = 0 and starting_point = 'first-seen') then null
  when h.wanted = 'skip' then 'skip'
  when h.wanted = 'release' then 'apply'
  when h.wanted is null and h.reason not in ('gap', 'blocked') and not (h.reason = 'failing' and h.due_at <= clock_timestamp()) then null
  when mode = 'latest' and h.aggregate_type <> '' and h.sequence <= position then 'older'
  when mode = 'strict' and h.sequence <= position
       and (h.reason in ('gap', 'blocked') or h.wanted = 'retry' and h.reason in ('unknown-type', 'unknown-version') and h.aggregate_type <> '') then 'late'
  else 'apply'
end;

-- As before, and: what is late has been tried.
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
  update inbox.held_event h set reason = 'late', blocks = false, wanted = null
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

-- As before, and: where a strict consumer lets others pass what it cannot read, they pass one that came early, too, when its turn has come. The position moves over
-- it with the next one that is applied.
create or replace function inbox.ready_events(
  consumer text, mode text, starting_point text, aggregate_type text, aggregate_id text, at_most integer)
returns table (event_id uuid, event_time timestamptz, sequence bigint, verdict text, body text)
language plpgsql stable
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  h inbox.held_event;
  last bigint := 0;
  applied integer := 0;
begin
  if mode <> 'any' then
    select coalesce(max(p.sequence), 0) into last from inbox.stream_position p
     where p.consumer = ready_events.consumer and p.aggregate_type = ready_events.aggregate_type
       and p.aggregate_id = ready_events.aggregate_id;
  end if;
  for h in
    select w.* from inbox.held_event w
     where w.consumer = ready_events.consumer and w.aggregate_type = ready_events.aggregate_type
       and w.aggregate_id = ready_events.aggregate_id and not w.queued and (w.reason <> 'late' or w.wanted is not null)
     order by w.sequence, w.event_id
  loop
    verdict := inbox.verdict(mode, starting_point, last, h);
    if verdict is null then
      if mode = 'strict' and not h.blocks and h.aggregate_type <> '' and h.reason not in ('gap', 'blocked', 'replay')
         and (h.reason <> 'failing' or h.due_at = 'infinity') and inbox.follows(last, h.sequence) then
        last := h.sequence;
      end if;
      exit when h.blocks and (mode = 'strict' or h.reason not in ('gap', 'blocked')) and h.aggregate_type <> '';
      continue;
    end if;
    event_id := h.event_id;
    event_time := h.event_time;
    sequence := h.sequence;
    body := h.body;
    return next;
    if (verdict = 'apply' and mode <> 'any') or (verdict = 'skip' and mode = 'strict') then
      last := greatest(last, h.sequence);
    end if;
    applied := applied + 1;
    exit when applied >= at_most;
  end loop;
end
$$;

-- As before, and: where a strict consumer waits for events before one that cannot be read, or is too old, that is a gap, too. It was neither that nor could the event
-- be skipped, for want of those before it.
create or replace function inbox.accept_gap(consumer text, aggregate_type text, aggregate_id text, reason text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  before bigint;
  h inbox.held_event;
begin
  perform inbox.begin_act(accept_gap.reason);
  select p.sequence into before from inbox.stream_position p
   where p.consumer = accept_gap.consumer and p.aggregate_type = accept_gap.aggregate_type and p.aggregate_id = accept_gap.aggregate_id
     for update;
  if not found then
    raise exception 'this consumer knows no such aggregate. Nothing was changed.' using errcode = 'IB007';
  end if;
  select w.* into h from inbox.held_event w
   where w.consumer = accept_gap.consumer and w.aggregate_type = accept_gap.aggregate_type and w.aggregate_id = accept_gap.aggregate_id
     and not w.queued and w.sequence > before
   order by w.sequence limit 1;
  if not found or h.reason = 'replay' or inbox.follows(before, h.sequence)
     or h.reason not in ('gap', 'blocked')
        and not exists (select from inbox.consumer c where c.name = accept_gap.consumer and c.mode = 'strict') then
    raise exception 'no gap is open before the lowest waiting event of this aggregate. Nothing was changed.'
      using errcode = 'IB006', hint = 'Skip or retry the event that others wait behind.';
  end if;
  update inbox.stream_position p set sequence = h.sequence - 1
   where p.consumer = accept_gap.consumer and p.aggregate_type = accept_gap.aggregate_type and p.aggregate_id = accept_gap.aggregate_id;
  insert into inbox.audit (act, detail)
  values ('accept_gap', jsonb_build_object(
    'consumer', accept_gap.consumer, 'aggregate_type', accept_gap.aggregate_type, 'aggregate_id', accept_gap.aggregate_id,
    'why', accept_gap.reason, 'position_before', before, 'position', h.sequence - 1));
  return h.sequence - 1;
end
$$;
