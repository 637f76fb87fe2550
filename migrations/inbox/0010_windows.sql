-- A dedupe row stays as long as its consumer applies events so old, whatever a janitor was told; and what was removed is remembered, so that nobody
-- applies an event whose dedupe row may be gone, however long a window it declares later, or declared once and still goes by.
set local role inbox_owner;

-- The window that the consumer's process was started with last. Code of before writes none: the default of its option.
alter table inbox.consumer add column window_days integer not null default 35 check (window_days between 1 and 36500);
grant update (window_days) on inbox.consumer to inbox_consumer;

-- Up to when dedupe rows of a consumer are gone: of any event from before that. Never falls.
create table inbox.pruned (
  consumer text primary key,
  before   timestamptz not null
) with (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
grant select on inbox.pruned to inbox_consumer;

-- What earlier janitors removed, they did not write down. A walk is never above what was too young for it, and at most the time between two walks from the
-- beginning, an hour, below. One from the beginning that is under way says nothing: what was kept is taken to be the default then.
insert into inbox.pruned (consumer, before)
select w.consumer, case
         when w.sweeping or w.mark = '00000000-0000-0000-0000-000000000000' or w.mark > inbox.uuid_at(now() - interval '1 day') then now() - interval '35 days'
         else to_timestamp(('x' || lpad(left(replace(w.mark::text, '-', ''), 12), 16, '0'))::bit(64)::bigint / 1000.0) + interval '2 hours'
       end
  from inbox.walk w;

-- As before, and: nothing goes that is younger than the consumer's window and the longest invocation, a quarter of an hour, in which an event that was found young
-- enough may still be applied; what goes is written down; and a consumer that accepts a replay, of which nothing goes, says how far it is behind.
create or replace function inbox.prune(consumer text, after uuid, keep interval, page integer)
returns table (processed integer, calls integer, reached uuid, more boolean, behind_seconds double precision)
language plpgsql security definer
set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set plan_cache_mode = force_generic_plan
set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_variable
declare
  cutoff timestamptz;
  young uuid;
  future uuid := inbox.uuid_at(clock_timestamp() + interval '1 day');
  walk inbox.walk;
  last uuid;
  accepted integer;
  needed interval;
  ids uuid[];
  old uuid[];
begin
  perform set_config('synchronous_commit', 'off', true);
  processed := 0;
  calls := 0;
  behind_seconds := 0;
  select w.* into walk from inbox.walk w where w.consumer = prune.consumer for update skip locked;
  if walk.mark is distinct from after then
    reached := coalesce(walk.mark, after);
    more := walk.mark is not null;
    return next;
    return;
  end if;
  -- Whoever is about to accept a replay, or to declare another window, waits for this page, or this page for that.
  select c.replay_accepted, c.window_days * interval '24 hours' + interval '15 minutes' into accepted, needed
    from inbox.consumer c where c.name = prune.consumer for share;
  cutoff := clock_timestamp() - greatest(keep, needed);
  if accepted > 0 then
    -- Of one that nobody ends, rows would stay for ever.
    select greatest(0, extract(epoch from cutoff - min(p.event_time))) into behind_seconds
      from (select e.event_time from inbox.processed_event e
             where e.consumer = prune.consumer and e.event_id > after
             order by e.consumer, e.event_id limit page) p;
    behind_seconds := coalesce(behind_seconds, 0);
    reached := after;
    more := false;
    return next;
    return;
  end if;
  young := inbox.uuid_at(cutoff);
  if walk.sweeping and after >= young and after < future then
    after := future;
  end if;
  -- A bound of the walk and not a filter: what is younger is not read.
  last := case when walk.sweeping then repeat('f', 32)::uuid else young end;
  select array_agg(p.event_id), array_agg(p.event_id) filter (where p.event_time < cutoff) into ids, old
    from (select e.event_id, e.event_time from inbox.processed_event e
           where e.consumer = prune.consumer and e.event_id > after and e.event_id <= last
           order by e.consumer, e.event_id limit page) p;
  more := coalesce(array_length(ids, 1), 0) = page;
  reached := case when more then ids[page] when walk.sweeping then young else greatest(after, ids[array_length(ids, 1)]) end;
  if more and reached < young then
    -- 48 bits of milliseconds are what UUIDs of version 7 begin with.
    behind_seconds := greatest(0, extract(epoch from cutoff)
      - ('x' || lpad(left(replace(reached::text, '-', ''), 12), 16, '0'))::bit(64)::bigint / 1000.0);
  end if;

  delete from inbox.processed_event e
   where e.consumer = prune.consumer and e.event_id = any (old)
     and (select true from inbox.held_event h where h.consumer = e.consumer and h.event_id = e.event_id limit 1) is null;
  get diagnostics processed = row_count;
  delete from inbox.external_call c
   where c.consumer = prune.consumer and c.event_id = any (old) and c.state = 'done'
     and (select true from inbox.held_event h where h.consumer = c.consumer and h.event_id = c.event_id limit 1) is null;
  get diagnostics calls = row_count;
  if processed > 0 then
    insert into inbox.pruned as p (consumer, before) values (prune.consumer, cutoff)
    on conflict on constraint pruned_pkey do update set before = greatest(p.before, excluded.before);
  end if;
  update inbox.walk w set mark = prune.reached, sweeping = w.sweeping and prune.more where w.consumer = prune.consumer;
  return next;
end
$$;

-- The consumers whose dedupe rows stay longer than `keep`, because their window is longer.
create function inbox.windows_beyond(keep interval) returns table (consumer_name text, window_days integer)
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
  select c.name, c.window_days from inbox.consumer c where c.window_days * interval '24 hours' > keep order by c.name;
end;
grant execute on function inbox.windows_beyond(interval) to inbox_janitor;

-- As before, and: too old is also what was before the dedupe rows that are gone. Not of a replay, which has no window: nothing of its consumer is removed while it is
-- accepted.
create or replace function inbox.take(consumer text, mode text, starting_point text, oldest interval, events json)
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
           g.time < clock_timestamp() - oldest
             or oldest < interval '5000 years'
                and g.time < (select p.before from inbox.pruned p where p.consumer = take.consumer) as too_old
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
    -- Who waited for another transaction at one of them may have found the dedupe row of the next one gone in between.
    if oldest < interval '5000 years'
       and (select p.before from inbox.pruned p where p.consumer = take.consumer) > (select min(t.time) from unnest(taken_times) t (time)) then
      raise exception 'dedupe rows of events so old were removed meanwhile.' using errcode = '40001';
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

-- As before, and the same.
create or replace function inbox.take_next(consumer text, mode text, starting_point text, oldest interval, aggregates json, events json)
returns double precision
language plpgsql
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan set enable_seqscan = off
  set enable_hashjoin = off set enable_mergejoin = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  moved integer;
  added integer;
  taken integer;
  gone_before timestamptz;
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
  -- After the insertion, which may have waited while the janitor removed a dedupe row. Of windows that stay as they are it is never within one.
  select p.before into gone_before from inbox.pruned p where p.consumer = take_next.consumer;
  if gone_before > clock_timestamp() - oldest
     and gone_before > (select min(e.time) from json_to_recordset(events) e ("time" timestamptz)) then
    return null;
  end if;
  return extract(epoch from clock_timestamp());
end
$$;

-- As before, and: what could not be read, and is from before the dedupe rows that are gone, is held as too old. A retry would apply it.
create or replace function inbox.hold(consumer text, mode text, messages json)
returns table (place integer, held boolean)
language plpgsql
  set search_path = pg_catalog, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  m record;
  held_as text;
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
      held_as := case
        when m.reason in ('malformed', 'unknown-type', 'unknown-version', 'denied')
             and m.time < (select p.before from inbox.pruned p where p.consumer = hold.consumer)
             and (select s.standing from inbox.standing(hold.consumer, m.aggregate, m.subject, null) s) = 'live'
             and not exists (select from inbox.held_event h where h.consumer = hold.consumer and h.event_id = m.id and h.reason <> 'too-old')
          then 'too-old'
        else m.reason end;
      insert into inbox.held_event as h
        (consumer, event_id, event_time, aggregate_type, aggregate_id, sequence, type, reason, body, last_error, blocks)
      values (hold.consumer, m.id, coalesce(m.time, now()), m.aggregate, m.subject, m.sequence, m.type, held_as, m.body, m.error,
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

-- As before, and: what the replay did not bring, and was too old when it came, is not applied by itself.
create or replace function inbox.end_replay(consumer text, reason text) returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  running integer;
  began timestamptz;
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
  update inbox.reset r set ended_at = clock_timestamp() where r.consumer = end_replay.consumer and r.ended_at is null
  returning r.reset_at into began;
  update inbox.consumer c set replay_accepted = 0 where c.name = end_replay.consumer;
  perform inbox.forget(end_replay.consumer, coalesce((
    select json_agg(json_build_object('id', h.event_id, 'aggregate', h.aggregate_type, 'subject', h.aggregate_id))
      from inbox.held_event h where h.consumer = end_replay.consumer and h.reason = 'replay'), '[]'));
  delete from inbox.held_event h
   where h.consumer = end_replay.consumer and h.reason = 'replay'
     and exists (select from inbox.processed_event d where d.consumer = h.consumer and d.event_id = h.event_id);
  update inbox.held_event h set reason = 'too-old'
    from inbox.consumer c
    left join inbox.pruned p on p.consumer = c.name
   where c.name = end_replay.consumer and h.consumer = c.name and h.reason = 'replay'
     and (h.event_time < h.held_at - c.window_days * interval '24 hours' or h.event_time < p.before and h.held_at >= began);
  update inbox.held_event h set reason = 'blocked' where h.consumer = end_replay.consumer and h.reason = 'replay';
  get diagnostics released = row_count;
  insert into inbox.audit (act, detail)
  values ('end_replay', jsonb_build_object('consumer', end_replay.consumer, 'replay', running, 'released', released, 'why', end_replay.reason));
  return released;
end
$$;
