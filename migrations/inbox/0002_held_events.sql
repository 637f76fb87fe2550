-- Held events: what a consumer keeps here instead of in its queue, how it takes events, and what a person may do with those that wait.
--
--   inbox_consumer  calls take, finish, hold, count_failure, drainable, ready_events and take_held
--   inbox_operator  calls list_held, show_held, retry_held, skip_held, release_held and accept_gap (next file), and sees nothing else
alter table inbox.held_event
  drop constraint held_event_reason_check,
  add constraint held_event_reason_check check (reason in (
    'gap', 'late', 'failing', 'blocked', 'malformed', 'unknown-type', 'unknown-version', 'too-old', 'denied', 'replay')),
  add column type     text not null default '',         -- with the aggregate empty where the message is no event of ours; event_id is the message's then
  add column queued   boolean not null default false,   -- the message is still in the queue: the row only counts its failures, its body is empty
  add column blocks   boolean not null default true,    -- later ones of the aggregate wait behind it
  add column event_time timestamptz not null default now(),
  add column wanted   text check (wanted in ('retry', 'release', 'skip')),   -- what an operator asked for, and the consumer has not done yet
  add column due_at   timestamptz not null default '-infinity';              -- of a failing one: when it is tried again; infinity: when an operator says so

create index held_event_barrier on inbox.held_event (consumer, aggregate_type, aggregate_id, sequence)
  where blocks and not queued and reason not in ('gap', 'blocked');
create index held_event_due on inbox.held_event (consumer, aggregate_type, aggregate_id) where wanted is not null or reason = 'failing';

set local role inbox_owner;

-- The functions below are called for every message. Their plans are made once for a connection, and only such as look rows up by key: without
-- statistics the planner takes a table of a million positions for small and reads all of it, also to answer `exists` (a hashed subplan; `limit 1`
-- is not hashed) or a join with a list. Small functions have no settings of their own, so
-- that they are inlined; their names were resolved when they were created.

-- Whether `sequence` is the one after `position` (0: none yet): the next of its epoch, or the first of a higher one. An epoch is the bits above 40.
create function inbox.follows("position" bigint, sequence bigint) returns boolean
language sql immutable
return sequence > position
   and ((sequence = position + 1 and sequence & 1099511627775 <> 0)
        or (sequence & 1099511627775 = 1 and sequence >> 40 > position >> 40));

-- The sequence that would be applied in place of one that is not.
create function inbox.expected("position" bigint, sequence bigint) returns bigint
language sql immutable
return case when sequence >> 40 > position >> 40 then ((sequence >> 40) << 40) + 1 else position + 1 end;

-- Nobody but the consumer may end the transaction that `take` opened: what a handler commits in mid-batch would be the dedupe rows of
-- events that were not applied yet. `finish` clears the mark right before the consumer's own commit.
-- Names are written out instead of a search_path of its own: that would cost more than all that it does, for every row.
create function inbox.refuse_commit() returns trigger
language plpgsql as $$
begin
  if pg_catalog.current_setting('inbox.taken', true) operator(pg_catalog.=) 'on' then
    raise exception 'a handler must not commit: the consumer ends the transaction. It was rolled back.' using errcode = 'IB001';
  end if;
  return null;
end
$$;
create constraint trigger refuse_commit after insert on inbox.processed_event
  deferrable initially deferred for each row when (current_setting('inbox.taken', true) = 'on')
  execute function inbox.refuse_commit();

create function inbox.finish() returns void
language plpgsql as $$
begin
  if pg_catalog.current_setting('inbox.taken', true) operator(pg_catalog.=) 'on' then
    perform pg_catalog.set_config('inbox.taken', '', true);
    return;
  end if;
  raise exception 'a handler ended the transaction that the consumer had opened. Nothing more is committed.' using errcode = 'IB001';
end
$$;

-- Locks the positions of aggregates, in one order everywhere, so that two transactions never wait for each other crosswise. Position 0 stands
-- for none: the row is there to be locked.
create function inbox.lock_positions(consumer text, aggregate_types text[], aggregate_ids text[]) returns void
language plpgsql
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  insert into inbox.stream_position (consumer, aggregate_type, aggregate_id, sequence)
  select distinct lock_positions.consumer, a.type collate "C", a.id collate "C", 0
    from unnest(aggregate_types, aggregate_ids) a (type, id)
   order by 2, 3
  on conflict do nothing;
  -- Compared by the columns' own collation: by another one the index finds the consumer only, and all of its positions are read.
  perform from (select a.type, a.id from unnest(aggregate_types, aggregate_ids) a (type, id)
                 group by 1, 2 order by a.type collate "C", a.id collate "C") a
    cross join lateral (
      select from inbox.stream_position p
       where p.consumer = lock_positions.consumer and p.aggregate_type = a.type and p.aggregate_id = a.id
         for update) locked;
end
$$;

-- Takes a run of events for a consumer in the transaction that will also hold their effects: decides about each, writes the dedupe rows of
-- those that are to be applied, and moves the positions. One call for all messages of a transaction.
--
-- The position is locked before anything is decided: a read followed by a write would let two transactions both find themselves in order, and
-- a gap that closes meanwhile would leave an event held behind nothing.
--
-- events: [{"id", "time", "type", "aggregate", "subject", "sequence"}]. The answer has one row for each, by its place from 0. outcome:
--   apply     run the handler, if there is one
--   passed    the outbox's own event, for a place that was passed already: nothing to do
--   repeat    processed before
--   held      it is held already
--   older     mode latest: a later one was applied
--   gap, blocked, late, too-old  hold it
-- waiting: other events of the aggregate are held.
create function inbox.take(consumer text, mode text, starting_point text, oldest interval, events json)
returns table (place integer, outcome text, expected bigint, age double precision, waiting boolean)
language plpgsql
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  e record;
  aggregate text := null;
  last bigint;
  verdict text;
  seen uuid[] := '{}';
  taken uuid[] := '{}';
  taken_times timestamptz[] := '{}';
  counted uuid[] := '{}';
  written uuid[];
  moved_types text[] := '{}';
  moved_ids text[] := '{}';
  moved_to bigint[] := '{}';
  places integer[] := '{}';
  ids uuid[] := '{}';
  outcomes text[] := '{}';
  expecteds bigint[] := '{}';
  ages double precision[] := '{}';
  waitings boolean[] := '{}';
begin
  perform set_config('inbox.taken', 'on', true);
  if mode <> 'any' then
    perform inbox.lock_positions(take.consumer, array_agg(g.aggregate), array_agg(g.subject))
       from json_to_recordset(events) g (aggregate text, subject text);
  end if;
  for e in
    select g.place - 1 as place, g.id, g.time, g.type, g.aggregate, g.subject, g.sequence,
           case when mode <> 'any' then
             (select p.sequence from inbox.stream_position p
               where p.consumer = take.consumer and p.aggregate_type = g.aggregate and p.aggregate_id = g.subject) end as position,
           (select true from inbox.processed_event d where d.consumer = take.consumer and d.event_id = g.id limit 1) as processed,
           (select h.queued from inbox.held_event h where h.consumer = take.consumer and h.event_id = g.id) as queued,
           (select min(b.sequence) from inbox.held_event b
             where b.consumer = take.consumer and b.aggregate_type = g.aggregate and b.aggregate_id = g.subject
               and b.blocks and not b.queued and b.reason not in ('gap', 'blocked')) as barrier,
           (select true from inbox.held_event b
             where b.consumer = take.consumer and b.aggregate_type = g.aggregate and b.aggregate_id = g.subject
               and not b.queued limit 1) as waiting,
           extract(epoch from clock_timestamp() - g.time)::float8 as age,
           g.time < clock_timestamp() - oldest as too_old
      from rows from (json_to_recordset(events) as (id uuid, "time" timestamptz, type text, aggregate text, subject text, sequence bigint))
           with ordinality g (id, time, type, aggregate, subject, sequence, place)
     order by g.aggregate, g.subject, g.place
  loop
    if (e.aggregate || '/' || e.subject) is distinct from aggregate then
      aggregate := e.aggregate || '/' || e.subject;
      last := coalesce(e.position, 0);
    end if;
    verdict := case
      when e.processed or e.id = any (seen) then 'repeat'
      when not e.queued then 'held'
      when e.too_old then 'too-old'
      when mode = 'strict' and e.type like 'outbox.%' and e.sequence <= last then 'passed'
      when mode = 'latest' and e.sequence <= last then 'older'
      when mode = 'strict' and e.sequence <= last then 'late'
      when e.barrier < e.sequence then 'blocked'
      when mode <> 'strict' or inbox.follows(last, e.sequence) or (last = 0 and starting_point = 'first-seen') then 'apply'
      else 'gap'
    end;
    places := places || e.place::integer;
    ids := ids || e.id;
    outcomes := outcomes || verdict;
    expecteds := expecteds || inbox.expected(last, e.sequence);
    ages := ages || e.age;
    waitings := waitings || coalesce(e.waiting, false);
    if verdict in ('apply', 'passed') then
      taken := taken || e.id;
      taken_times := taken_times || e.time;
      if mode <> 'any' and verdict = 'apply' then
        last := e.sequence;
        if moved_types[cardinality(moved_types)] = e.aggregate and moved_ids[cardinality(moved_ids)] = e.subject then
          moved_to[cardinality(moved_to)] := e.sequence;
        else
          moved_types := moved_types || e.aggregate;
          moved_ids := moved_ids || e.subject;
          moved_to := moved_to || e.sequence;
        end if;
      end if;
    end if;
    -- Its message goes now, for whatever reason: nobody counts its failures any more.
    if e.queued and (verdict in ('apply', 'passed', 'older') or e.processed) then
      counted := counted || e.id;
    end if;
    seen := seen || e.id;
  end loop;

  if taken <> '{}' then
    -- In one order, too: another transaction that has taken one of them and is still open makes this one wait.
    with wrote as (
      insert into inbox.processed_event (consumer, event_id, event_time)
      select take.consumer, t.id, t.time from unnest(taken, taken_times) t (id, time) order by t.id
      on conflict do nothing
      returning event_id)
    select coalesce(array_agg(w.event_id), '{}') into written from wrote w;
    if cardinality(written) < cardinality(taken) and mode <> 'any' then
      raise exception 'an event was taken without its position.' using errcode = '40001';
    end if;
  end if;
  for i in 1 .. cardinality(moved_to) loop
    update inbox.stream_position p set sequence = moved_to[i]
     where p.consumer = take.consumer and p.aggregate_type = moved_types[i] and p.aggregate_id = moved_ids[i];
  end loop;
  if counted <> '{}' then
    delete from inbox.held_event h where h.consumer = take.consumer and h.event_id = any (counted);
  end if;
  return query
    select r.place, case when r.outcome in ('apply', 'passed') and not r.id = any (written) then 'repeat' else r.outcome end,
           r.expected, r.age, r.waiting
      from unnest(places, ids, outcomes, expecteds, ages, waitings) r (place, id, outcome, expected, age, waiting)
     order by r.place;
end
$$;

-- Keeps messages that cannot be applied now, or not as they are. messages: [{"id", "time", "type", "aggregate", "subject", "sequence", "reason",
-- "body", "error", "blocks"}]. In mode strict the position moves over one that does not block. Answers, by place from 0, whether it is held; false: it had been
-- processed before.
create function inbox.hold(consumer text, mode text, messages json)
returns table (place integer, held boolean)
language plpgsql
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  m record;
begin
  if mode <> 'any' then
    perform inbox.lock_positions(hold.consumer, array_agg(g.aggregate), array_agg(g.subject))
       from json_to_recordset(messages) g (aggregate text, subject text) where g.aggregate <> ''
     having count(*) > 0;
  end if;
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

-- Counts a failure of an event's handler, in a transaction of its own. At the last attempt the event is held: its message may be acknowledged,
-- and in mode strict the position moves over it unless it blocks. Until then its message stays in the queue, or it is held already and
-- tried again after a growing pause.
create function inbox.count_failure(consumer text, mode text, message json, error text, at_most integer)
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
  if mode <> 'any' then
    perform inbox.lock_positions(count_failure.consumer, array[m.aggregate], array[m.subject]);
  end if;
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

-- What becomes of a held event when its aggregate stands at `position`: apply | skip | older (mode latest: dropped) | late (held as such from now on);
-- null: it waits on. An event of no aggregate has no order.
create function inbox.verdict(mode text, starting_point text, "position" bigint, h inbox.held_event) returns text
language sql stable
return case
  when h.queued then null
  when mode = 'strict' and h.aggregate_type <> '' and h.sequence > position and not inbox.follows(position, h.sequence)
       and not (position = 0 and starting_point = 'first-seen') then null
  when h.wanted = 'skip' then 'skip'
  when h.wanted = 'release' then 'apply'
  when h.wanted is null and h.reason not in ('gap', 'blocked') and not (h.reason = 'failing' and h.due_at <= clock_timestamp()) then null
  when mode = 'latest' and h.aggregate_type <> '' and h.sequence <= position then 'older'
  when mode = 'strict' and h.reason in ('gap', 'blocked') and h.sequence <= position then 'late'
  else 'apply'
end;

-- The held events of an aggregate that may be applied now, one after the other, and those that need no handler (skip, older, late) between them.
-- It stops at the first that others wait behind.
create function inbox.ready_events(
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

-- Takes held events of one aggregate out, in order, in the transaction that will hold their effects: dedupe rows are written, the position moves. The
-- answer has those that are to be applied. With `waits` false it has none where somebody else is at the aggregate: two that go through the same
-- aggregates would wait for each other at each.
create function inbox.take_held(
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
  perform set_config('inbox.taken', 'on', true);
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

-- Aggregates of which something that is held may be applied now, after the given one, in order. Steps from one aggregate to the next in the index, so
-- a hundred thousand events behind a thousand open gaps cost a thousand probes.
create function inbox.drainable(
  consumer text, mode text, starting_point text, after_type text, after_id text, at_most integer)
returns table (aggregate_type text, aggregate_id text)
language plpgsql stable
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  found_some integer := 0;
begin
  aggregate_type := coalesce(after_type, '');
  aggregate_id := coalesce(after_id, '');
  if after_type is null then
    -- Messages without an aggregate come first.
    if exists (select from inbox.ready_events(drainable.consumer, drainable.mode, drainable.starting_point, '', '', 1)) then
      found_some := 1;
      return next;
    end if;
  end if;
  while found_some < at_most loop
    select h.aggregate_type, h.aggregate_id into aggregate_type, aggregate_id
      from inbox.held_event h
     where h.consumer = drainable.consumer
       and (h.aggregate_type, h.aggregate_id) > (drainable.aggregate_type, drainable.aggregate_id)
     order by h.aggregate_type, h.aggregate_id limit 1;
    exit when not found;
    if exists (select from inbox.ready_events(
                 drainable.consumer, drainable.mode, drainable.starting_point, drainable.aggregate_type, drainable.aggregate_id, 1)) then
      found_some := found_some + 1;
      return next;
    end if;
  end loop;
end
$$;

grant execute on function
  inbox.finish(), inbox.lock_positions(text, text[], text[]), inbox.follows(bigint, bigint), inbox.expected(bigint, bigint),
  inbox.verdict(text, text, bigint, inbox.held_event), inbox.take(text, text, text, interval, json), inbox.hold(text, text, json),
  inbox.count_failure(text, text, json, text, integer), inbox.ready_events(text, text, text, text, text, integer),
  inbox.take_held(text, text, text, text, text, integer, boolean), inbox.drainable(text, text, text, text, text, integer)
  to inbox_consumer;

-- What a person may do with held events. Nobody touches the tables for that; each act, looking included, writes inbox.audit with the name of the
-- user who logged in, in the same transaction. Errors; nothing is changed then:
--   IB006  the event, or the aggregate, is not in the state that the act needs
--   IB007  there is no such held event, consumer or aggregate
--   IB008  an argument is missing or malformed
--   IB009  the transaction is not READ COMMITTED
reset role;
do $$
begin
  if not exists (select from pg_roles where rolname = 'inbox_operator') then
    create role inbox_operator nologin;
  end if;
end
$$;
set local role inbox_owner;
grant usage on schema inbox to inbox_operator;

create table inbox.audit (
  number bigint generated always as identity primary key,
  at     timestamptz not null default clock_timestamp(),
  actor  text not null default session_user,
  act    text not null,
  detail jsonb not null
);

-- What every act begins with. A consumer waits for the locks of an act, so its transaction may not be left open in some terminal: after 10 idle
-- seconds the server ends it.
create function inbox.begin_act(reason text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  idle_ms integer;
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'this transaction is %: it could decide by what is no longer so. Nothing was changed.',
      current_setting('transaction_isolation')
      using errcode = 'IB009', hint = 'begin isolation level read committed';
  end if;
  if coalesce(btrim(reason), '') = '' or char_length(reason) > 500 then
    raise exception 'reason must have 1 to 500 characters: it is kept in the audit. Nothing was changed.' using errcode = 'IB008';
  end if;
  if current_setting('lock_timeout') = '0' then
    perform set_config('lock_timeout', '5s', true);
  end if;
  select setting::integer into strict idle_ms from pg_settings where name = 'idle_in_transaction_session_timeout';
  if idle_ms = 0 or idle_ms > 10000 then
    perform set_config('idle_in_transaction_session_timeout', '10s', true);
  end if;
end
$$;

-- Locks the position of the event's aggregate, and only then the event: a consumer that drains holds the position.
create function inbox.lock_held(consumer text, event_id uuid) returns inbox.held_event
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  h inbox.held_event;
begin
  select w.* into h from inbox.held_event w where w.consumer = lock_held.consumer and w.event_id = lock_held.event_id and not w.queued;
  if found then
    perform from inbox.stream_position p
      where p.consumer = h.consumer and p.aggregate_type = h.aggregate_type and p.aggregate_id = h.aggregate_id for update;
    select w.* into h from inbox.held_event w
     where w.consumer = lock_held.consumer and w.event_id = lock_held.event_id and not w.queued for update;
  end if;
  if not found then
    raise exception 'consumer % holds no event %. Nothing was changed.', lock_held.consumer, lock_held.event_id
      using errcode = 'IB007', hint = 'inbox.list_held shows those that wait.';
  end if;
  return h;
end
$$;

-- What the audit says of a held event: where it belongs, never what is in it.
create function inbox.describe(h inbox.held_event) returns jsonb
language sql stable
return jsonb_build_object(
  'consumer', h.consumer, 'event_id', h.event_id, 'type', h.type, 'aggregate_type', h.aggregate_type, 'aggregate_id', h.aggregate_id,
  'sequence', h.sequence, 'held_as', h.reason, 'attempts', h.attempts, 'last_error', h.last_error);

-- What is held, oldest first, a page at a time: `after` is the last `place` of the page before.
create function inbox.list_held(
  consumer text default null, held_as text default null, after text default null, at_most integer default 100)
returns table (
  place text, consumer_name text, event_id uuid, type text, aggregate_type text, aggregate_id text, sequence bigint, reason text,
  attempts integer, last_error text, wanted text, held_at timestamptz, blocked_behind bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  listed integer;
  after_time timestamptz;
  after_id uuid;
begin
  if at_most is null or at_most not between 1 and 1000 then
    raise exception 'at_most must be between 1 and 1000.' using errcode = 'IB008';
  end if;
  if list_held.consumer is not null and not exists (select from inbox.consumer c where c.name = list_held.consumer) then
    raise exception 'there is no consumer of this name.' using errcode = 'IB007';
  end if;
  if after is not null then
    begin
      after_time := split_part(after, ' ', 1)::timestamptz;
      after_id := split_part(after, ' ', 2)::uuid;
    exception when others then
      raise exception 'after must be the place that a page before ended with.' using errcode = 'IB008';
    end;
  end if;
  return query
    select to_char(h.held_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') || ' ' || h.event_id,
           h.consumer, h.event_id, h.type, h.aggregate_type, h.aggregate_id, h.sequence, h.reason, h.attempts, h.last_error, h.wanted,
           h.held_at,
           (select count(*) from inbox.held_event b
             where b.consumer = h.consumer and b.aggregate_type = h.aggregate_type and b.aggregate_id = h.aggregate_id
               and b.reason in ('gap', 'blocked') and b.sequence > h.sequence and h.blocks and h.aggregate_type <> '')
      from inbox.held_event h
     where not h.queued
       and (list_held.consumer is null or h.consumer = list_held.consumer)
       and (held_as is null or h.reason = held_as)
       and (after is null or (h.held_at, h.event_id) > (after_time, after_id))
     order by h.held_at, h.event_id
     limit at_most;
  get diagnostics listed = row_count;
  insert into inbox.audit (act, detail)
  values ('list_held', jsonb_build_object('consumer', list_held.consumer, 'held_as', held_as, 'after', after, 'listed', listed));
end
$$;

-- One held event: why it is held, and where its aggregate stands. The body only where it is asked for, which the audit keeps.
create function inbox.show_held(consumer text, event_id uuid, with_body boolean default false)
returns table (
  type text, aggregate_type text, aggregate_id text, sequence bigint, event_time timestamptz, reason text, attempts integer, last_error text,
  wanted text, blocks boolean, due_at text, held_at timestamptz, "position" bigint, expected bigint, bytes integer, body text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  h inbox.held_event;
begin
  select w.* into h from inbox.held_event w
   where w.consumer = show_held.consumer and w.event_id = show_held.event_id and not w.queued;
  if not found then
    raise exception 'consumer % holds no event %.', show_held.consumer, show_held.event_id using errcode = 'IB007';
  end if;
  insert into inbox.audit (act, detail)
  values ('show_held', inbox.describe(h) || jsonb_build_object('with_body', coalesce(with_body, false)));
  return query
    select h.type, h.aggregate_type, h.aggregate_id, h.sequence, h.event_time, h.reason, h.attempts, h.last_error, h.wanted, h.blocks,
           nullif(h.due_at::text, '-infinity'), h.held_at, p.sequence, inbox.expected(coalesce(p.sequence, 0), h.sequence),
           octet_length(h.body), case when with_body then h.body end
      from (select) one
      left join inbox.stream_position p
        on p.consumer = h.consumer and p.aggregate_type = h.aggregate_type and p.aggregate_id = h.aggregate_id;
end
$$;

-- Tries an event again that failed, or that the consumer could not read: at its next invocation, with all its attempts.
create function inbox.retry_held(consumer text, event_id uuid, reason text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  h inbox.held_event;
begin
  perform inbox.begin_act(retry_held.reason);
  h := inbox.lock_held(retry_held.consumer, retry_held.event_id);
  if h.reason not in ('failing', 'malformed', 'unknown-type', 'unknown-version', 'denied') then
    raise exception 'event % is held as %: trying again changes nothing. Nothing was changed.', h.event_id, h.reason
      using errcode = 'IB006', hint = case when h.reason in ('gap', 'blocked')
        then 'It is applied by itself when what is before it was: look at that, or accept the gap.' else 'Release or skip it.' end;
  end if;
  update inbox.held_event w set wanted = 'retry', attempts = 0, due_at = '-infinity'
   where w.consumer = h.consumer and w.event_id = h.event_id;
  insert into inbox.audit (act, detail)
  values ('retry_held', inbox.describe(h) || jsonb_build_object('why', retry_held.reason));
end
$$;

-- Applies an event all the same that is held because it came late or is older than the window, at the consumer's next invocation. A late one
-- is applied out of order: the state may go back.
create function inbox.release_held(consumer text, event_id uuid, reason text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  h inbox.held_event;
begin
  perform inbox.begin_act(release_held.reason);
  h := inbox.lock_held(release_held.consumer, release_held.event_id);
  if h.reason not in ('late', 'too-old') then
    raise exception 'event % is held as %, not as late or too-old. Nothing was changed.', h.event_id, h.reason using errcode = 'IB006';
  end if;
  update inbox.held_event w set wanted = 'release' where w.consumer = h.consumer and w.event_id = h.event_id;
  insert into inbox.audit (act, detail)
  values ('release_held', inbox.describe(h) || jsonb_build_object('why', release_held.reason));
end
$$;

-- Leaves an event out for good: its dedupe row is written, its effect never happens, later ones of its aggregate go on. Returns whether that
-- is done; false: something before it is missing, and it will be passed over in its turn.
create function inbox.skip_held(consumer text, event_id uuid, reason text) returns boolean
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
  h := inbox.lock_held(skip_held.consumer, skip_held.event_id);
  h.wanted := 'skip';
  select c.mode, c.starting_point into as_mode, start from inbox.consumer c where c.name = h.consumer;
  select coalesce(max(p.sequence), 0) into last from inbox.stream_position p
   where p.consumer = h.consumer and p.aggregate_type = h.aggregate_type and p.aggregate_id = h.aggregate_id;
  done := inbox.verdict(coalesce(as_mode, 'any'), start, last, h) is not null;
  if done then
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

-- Accepts that what is before the lowest waiting event of an aggregate never comes: the position moves up to it, and the consumer goes on from there
-- at its next invocation. What comes after all is late then. Returns the position.
create function inbox.accept_gap(consumer text, aggregate_type text, aggregate_id text, reason text) returns bigint
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
  if not found or h.reason not in ('gap', 'blocked') or inbox.follows(before, h.sequence) then
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

grant execute on function
  inbox.list_held(text, text, text, integer), inbox.show_held(text, uuid, boolean), inbox.retry_held(text, uuid, text),
  inbox.release_held(text, uuid, text), inbox.skip_held(text, uuid, text), inbox.accept_gap(text, text, text, text)
  to inbox_operator;
