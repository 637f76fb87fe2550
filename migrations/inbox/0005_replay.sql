-- Replays, as a consumer sees them. A replayed message carries the number of its replay. It is applied only by a consumer that was reset for that
-- number, and only where the aggregate is in the scope of that reset; all others acknowledge it.
--
-- A reset makes a consumer forget what it did with the aggregates in its scope: positions go, and dedupe rows written before it are void. They
-- are removed when their event comes again: a row does not know its aggregate, and ten million of them would take minutes. Live events of these
-- aggregates are held (`replay`) until the run ends, and then applied in order.

-- When the event was taken. Null: before this was written down, and so before any reset. The default comes second, or every row would be rewritten.
alter table inbox.processed_event add column processed_at timestamptz;
alter table inbox.processed_event alter column processed_at set default clock_timestamp();

set local role inbox_owner;

create table inbox.reset (
  consumer       text not null references inbox.consumer (name),
  generation     integer not null,
  replay         integer not null check (replay > 0),
  aggregate_type text,                             -- null: all
  aggregate_id   text,                             -- null: all of the type
  reset_at       timestamptz not null,
  ended_at       timestamptz,                      -- null: the run is under way
  primary key (consumer, generation)
);
grant select on inbox.reset to inbox_consumer;

-- Held by every transaction that applies or holds events of a consumer; a reset, or the end of a run, waits for them all, and they for it.
-- No settings of their own, so that they are inlined.
create function inbox.share_consumer(consumer text) returns void
language sql volatile
return pg_advisory_xact_lock_shared(hashtextextended('inbox.consumer ' || consumer, 0));

create function inbox.seize_consumer(consumer text) returns void
language sql volatile
return pg_advisory_xact_lock(hashtextextended('inbox.consumer ' || consumer, 0));

-- As before, behind the lock that keeps a reset away.
create or replace function inbox.lock_positions(consumer text, aggregate_types text[], aggregate_ids text[]) returns void
language plpgsql
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  perform inbox.share_consumer(lock_positions.consumer);
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

-- What a message is to a consumer that was reset. `replay`: the number that it carries, or null.
--   live          nothing of its aggregate is replayed now
--   accepted      it belongs to the run, and so does its aggregate
--   not-accepted  it belongs to another run, or the run has nothing to do with its aggregate
--   hold          a live one of an aggregate that is being replayed
-- void_before: dedupe rows that were written before this say nothing any more.
create function inbox.standing(consumer text, aggregate_type text, aggregate_id text, replay integer)
returns table (standing text, void_before timestamptz)
language sql stable set search_path = pg_catalog, pg_temp
begin atomic
  select case
           when standing.replay is null then case when bool_or(r.ended_at is null) then 'hold' else 'live' end
           when bool_or(r.ended_at is null and r.replay = standing.replay) then 'accepted'
           else 'not-accepted'
         end,
         max(r.reset_at)
    from inbox.reset r
   where r.consumer = standing.consumer
     and (r.aggregate_type is null or r.aggregate_type = standing.aggregate_type)
     and (r.aggregate_id is null or r.aggregate_id = standing.aggregate_id);
end;

-- Removes what a reset has made void: the dedupe rows of these events, and the live copies of replayed ones that are held until the run ends. It
-- looks for itself what is void, so that the consumer, which may remove no dedupe row, can be given it.
create function inbox.forget(consumer text, events json) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  delete from inbox.processed_event p
   using json_to_recordset(events) e (id uuid, aggregate text, subject text, replay integer)
   cross join lateral inbox.standing(forget.consumer, e.aggregate, e.subject, e.replay) s
   where p.consumer = forget.consumer and p.event_id = e.id and s.void_before is not null
     and (p.processed_at is null or p.processed_at < s.void_before);
  delete from inbox.held_event h
   using json_to_recordset(events) e (id uuid, aggregate text, subject text, replay integer)
   cross join lateral inbox.standing(forget.consumer, e.aggregate, e.subject, e.replay) s
   where h.consumer = forget.consumer and h.event_id = e.id and h.reason = 'replay' and s.standing = 'accepted';
end
$$;

-- As inbox.take, for messages of which some may belong to a replay (`replay` in `events`). Two more outcomes:
--   replay        a live event whose aggregate is being replayed: hold it
--   not-accepted  a replayed one that is none of this consumer's business
-- A consumer that was never reset pays one look for it. What is replayed has no window.
create function inbox.take_any(consumer text, mode text, starting_point text, oldest interval, events json)
returns table (place integer, outcome text, expected bigint, age double precision, waiting boolean)
language plpgsql set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  live json;
  replayed json;
  live_places integer[];
  replayed_places integer[];
begin
  perform inbox.share_consumer(take_any.consumer);
  if not exists (select from inbox.reset r where r.consumer = take_any.consumer)
     and strpos(events::text, '"replay"') = 0 then
    return query select * from inbox.take(take_any.consumer, mode, starting_point, oldest, events);
    return;
  end if;
  perform set_config('inbox.taken', 'on', true);
  perform inbox.forget(take_any.consumer, events);
  if mode <> 'any' then
    perform inbox.lock_positions(take_any.consumer, array_agg(g.aggregate), array_agg(g.subject))
       from json_to_recordset(events) g (aggregate text, subject text);
  end if;
  select json_agg(e.e order by e.place) filter (where s.standing = 'live'),
         array_agg(e.place order by e.place) filter (where s.standing = 'live'),
         json_agg(e.e order by e.place) filter (where s.standing = 'accepted'),
         array_agg(e.place order by e.place) filter (where s.standing = 'accepted')
    into live, live_places, replayed, replayed_places
    from (select j.e, j.place::integer - 1 as place from json_array_elements(events) with ordinality j (e, place)) e
   cross join lateral inbox.standing(
     take_any.consumer, e.e ->> 'aggregate', e.e ->> 'subject', (e.e ->> 'replay')::integer) s;
  if live is not null then
    return query
      select live_places[t.place + 1], t.outcome, t.expected, t.age, t.waiting
        from inbox.take(take_any.consumer, mode, starting_point, oldest, live) t;
  end if;
  if replayed is not null then
    return query
      select replayed_places[t.place + 1], t.outcome, t.expected, t.age, t.waiting
        from inbox.take(take_any.consumer, mode, starting_point, interval '5000 years', replayed) t;
  end if;
  -- What waits is found when the run ends.
  return query
    select j.place::integer - 1,
           case when s.standing = 'not-accepted' then s.standing
                when exists (select from inbox.processed_event d
                              where d.consumer = take_any.consumer and d.event_id = (j.e ->> 'id')::uuid) then 'repeat'
                when exists (select from inbox.held_event h
                              where h.consumer = take_any.consumer and h.event_id = (j.e ->> 'id')::uuid and not h.queued) then 'held'
                else 'replay' end,
           0::bigint, extract(epoch from clock_timestamp() - (j.e ->> 'time')::timestamptz)::float8, false
      from json_array_elements(events) with ordinality j (e, place)
     cross join lateral inbox.standing(
       take_any.consumer, j.e ->> 'aggregate', j.e ->> 'subject', (j.e ->> 'replay')::integer) s
     where s.standing in ('hold', 'not-accepted');
end
$$;

-- Takes events in the usual case: each is the next of its aggregate, of which nothing is held or counted, and nobody was reset. Null: one of them is not, or was
-- processed; then the transaction must be rolled back, because positions have moved, and `take_any` asked. Otherwise all of them are to be
-- applied, and the answer is the database's clock, in seconds since 1970.
--
-- aggregates: [{"aggregate", "subject", "first", "last"}], the sequences of each, which follow each other from first to last. Empty in mode any.
-- events: [{"id", "time", "aggregate", "subject"}].
--
-- Ten events cost 0.45 of what `take_any` costs. The positions are moved before anything else is looked at: that locks them, and what is held is
-- read by a statement that began later. A join by ctid, because the planner takes few positions for a reason to read all of a consumer's; a row
-- that changed meanwhile is not found by it.
create function inbox.take_next(consumer text, mode text, starting_point text, oldest interval, aggregates json, events json)
returns double precision
language plpgsql
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  moved integer;
  added integer;
  taken integer;
begin
  perform set_config('inbox.taken', 'on', true), inbox.share_consumer(take_next.consumer);
  if mode <> 'any' then
    update inbox.stream_position p set sequence = a.last
      from (select (select q.ctid from inbox.stream_position q
                     where q.consumer = take_next.consumer and q.aggregate_type = g.aggregate and q.aggregate_id = g.subject) as row,
                   g.first, g.last
              from json_to_recordset(aggregates) g (aggregate text, subject text, first bigint, last bigint)
             order by g.aggregate collate "C", g.subject collate "C") a
     where p.ctid = a.row
       and (inbox.follows(p.sequence, a.first) or mode = 'latest' and p.sequence < a.first
            or p.sequence = 0 and starting_point = 'first-seen');
    get diagnostics moved = row_count;
    if moved < json_array_length(aggregates) then
      insert into inbox.stream_position (consumer, aggregate_type, aggregate_id, sequence)
      select take_next.consumer, g.aggregate, g.subject, g.last
        from json_to_recordset(aggregates) g (aggregate text, subject text, first bigint, last bigint)
       where inbox.follows(0, g.first) or starting_point = 'first-seen'
       order by g.aggregate collate "C", g.subject collate "C"
      on conflict do nothing;
      get diagnostics added = row_count;
      if moved + added < json_array_length(aggregates) then
        return null;
      end if;
    end if;
  end if;
  insert into inbox.processed_event (consumer, event_id, event_time)
  select take_next.consumer, e.id, e.time
    from json_to_recordset(events) e (id uuid, "time" timestamptz, aggregate text, subject text)
   where (select true from inbox.reset r where r.consumer = take_next.consumer limit 1) is null
     and e.time >= clock_timestamp() - oldest
     and (select true from inbox.held_event h
           where h.consumer = take_next.consumer and h.aggregate_type = e.aggregate and h.aggregate_id = e.subject limit 1) is null
   order by e.id
  on conflict do nothing;
  get diagnostics taken = row_count;
  if taken < json_array_length(events) then
    return null;
  end if;
  return extract(epoch from clock_timestamp());
end
$$;

-- Makes a consumer forget the aggregates in `scope` ({}, {"aggregate_type"}, or {"aggregate_type", "aggregate_id"}) and accept the messages of one
-- replay for them. The effects are yours to remove, before the replay is sent. Returns how many positions went, how many held events wait for the
-- end of the run, and the consumer's generation. Waits for transactions of the consumer, 5 s at most, and they wait for it.
create function inbox.reset_consumer(consumer text, scope jsonb, replay integer, reason text)
returns table (positions bigint, held bigint, generation integer)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  of_type text := scope ->> 'aggregate_type';
  of_id text := scope ->> 'aggregate_id';
  running integer;
  as_mode text;
begin
  perform inbox.begin_act(reset_consumer.reason);
  if scope is null or jsonb_typeof(scope) <> 'object' or scope - array['aggregate_type', 'aggregate_id'] <> '{}'
     or (scope ? 'aggregate_type' and jsonb_typeof(scope -> 'aggregate_type') <> 'string')
     or (scope ? 'aggregate_id' and (jsonb_typeof(scope -> 'aggregate_id') <> 'string' or not scope ? 'aggregate_type')) then
    raise exception 'scope must be {}, or have aggregate_type, and aggregate_id only with that. Nothing was changed.' using errcode = 'IB008';
  end if;
  if reset_consumer.replay is null or reset_consumer.replay < 1 then
    raise exception 'replay must be the number of a replay. Nothing was changed.' using errcode = 'IB008';
  end if;
  perform inbox.seize_consumer(reset_consumer.consumer);
  select c.replay_accepted, c.generation + 1, c.mode into running, generation, as_mode
    from inbox.consumer c where c.name = reset_consumer.consumer for update;
  if not found then
    raise exception 'there is no consumer of this name. Nothing was changed.' using errcode = 'IB007';
  elsif running <> 0 then
    raise exception 'the consumer is in replay %. Nothing was changed.', running
      using errcode = 'IB006', hint = 'End that one first.';
  end if;
  delete from inbox.stream_position p
   where p.consumer = reset_consumer.consumer
     and (of_type is null or p.aggregate_type = of_type) and (of_id is null or p.aggregate_id = of_id);
  get diagnostics positions = row_count;
  -- What could not be read stays what it is: the replay brings the same.
  update inbox.held_event h
     set reason = 'replay', wanted = null, due_at = '-infinity', attempts = 0, blocks = as_mode = 'strict'
   where h.consumer = reset_consumer.consumer and not h.queued and h.aggregate_type <> ''
     and h.reason in ('gap', 'blocked', 'late', 'failing', 'too-old')
     and (of_type is null or h.aggregate_type = of_type) and (of_id is null or h.aggregate_id = of_id);
  get diagnostics held = row_count;
  update inbox.consumer c set generation = reset_consumer.generation, replay_accepted = reset_consumer.replay
   where c.name = reset_consumer.consumer;
  insert into inbox.reset (consumer, generation, replay, aggregate_type, aggregate_id, reset_at)
  values (reset_consumer.consumer, generation, reset_consumer.replay, of_type, of_id, clock_timestamp());
  insert into inbox.audit (act, detail)
  values ('reset_consumer', jsonb_build_object('consumer', reset_consumer.consumer, 'scope', scope, 'replay', reset_consumer.replay,
    'generation', generation, 'positions', positions, 'held', held, 'why', reset_consumer.reason));
  return next;
end
$$;

-- Ends a run: its messages are acknowledged from now on, and the live events that were held meanwhile are applied in order, at the consumer's
-- next invocations. Returns how many these are. To be called when the replay is done and the queue has given out all of it.
create function inbox.end_replay(consumer text, reason text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  running integer;
  released bigint;
begin
  perform inbox.begin_act(end_replay.reason);
  perform inbox.seize_consumer(end_replay.consumer);
  select c.replay_accepted into running from inbox.consumer c where c.name = end_replay.consumer for update;
  if not found then
    raise exception 'there is no consumer of this name. Nothing was changed.' using errcode = 'IB007';
  elsif running = 0 then
    raise exception 'the consumer is in no replay. Nothing was changed.' using errcode = 'IB006';
  end if;
  update inbox.reset r set ended_at = clock_timestamp() where r.consumer = end_replay.consumer and r.ended_at is null;
  update inbox.consumer c set replay_accepted = 0 where c.name = end_replay.consumer;
  perform inbox.forget(end_replay.consumer, coalesce((
    select json_agg(json_build_object('id', h.event_id, 'aggregate', h.aggregate_type, 'subject', h.aggregate_id))
      from inbox.held_event h where h.consumer = end_replay.consumer and h.reason = 'replay'), '[]'));
  delete from inbox.held_event h
   where h.consumer = end_replay.consumer and h.reason = 'replay'
     and exists (select from inbox.processed_event d where d.consumer = h.consumer and d.event_id = h.event_id);
  update inbox.held_event h set reason = 'blocked' where h.consumer = end_replay.consumer and h.reason = 'replay';
  get diagnostics released = row_count;
  insert into inbox.audit (act, detail)
  values ('end_replay', jsonb_build_object('consumer', end_replay.consumer, 'replay', running, 'released', released, 'why', end_replay.reason));
  return released;
end
$$;

grant execute on function
  inbox.share_consumer(text), inbox.standing(text, text, text, integer), inbox.forget(text, json),
  inbox.take_any(text, text, text, interval, json), inbox.take_next(text, text, text, interval, json, json)
  to inbox_consumer;
grant execute on function inbox.reset_consumer(text, jsonb, integer, text), inbox.end_replay(text, text) to inbox_operator;
