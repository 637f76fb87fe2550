-- Nothing waits behind a held event that its aggregate has passed: a late one that was released and whose handler failed, one that was too old or could not be read
-- when it came late. It was a barrier to all that followed, until somebody acted.
set local role inbox_owner;

-- Whether the aggregate has come so far without this event. Under the lock of its position, which whoever asks has; mode any has no positions.
create function inbox.is_behind(consumer text, aggregate_type text, aggregate_id text, sequence bigint) returns boolean
language sql stable
return exists (
  select from inbox.stream_position p
   where p.consumer = is_behind.consumer and p.aggregate_type = is_behind.aggregate_type and p.aggregate_id = is_behind.aggregate_id
     and is_behind.sequence <= p.sequence);
revoke execute on function inbox.is_behind(text, text, text, bigint) from public;
grant execute on function inbox.is_behind(text, text, text, bigint) to inbox_consumer;

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
      bars := m.blocks and not inbox.is_behind(hold.consumer, m.aggregate, m.subject, m.sequence);
      insert into inbox.held_event as h
        (consumer, event_id, event_time, aggregate_type, aggregate_id, sequence, type, reason, body, last_error, blocks)
      values (hold.consumer, m.id, coalesce(m.time, now()), m.aggregate, m.subject, m.sequence, m.type, held_as, m.body, m.error,
              bars)
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
  bars boolean;
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
  bars := m.blocks and not inbox.is_behind(count_failure.consumer, m.aggregate, m.subject, m.sequence);
  insert into inbox.held_event as h
    (consumer, event_id, event_time, aggregate_type, aggregate_id, sequence, type, reason, body, attempts, last_error, queued, blocks)
  values (count_failure.consumer, m.id, m.time, m.aggregate, m.subject, m.sequence, m.type, 'failing', '', 1, error, true, bars)
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

update inbox.held_event h set blocks = false
 where h.blocks and h.reason not in ('gap', 'blocked', 'replay')
   and inbox.is_behind(h.consumer, h.aggregate_type, h.aggregate_id, h.sequence);
