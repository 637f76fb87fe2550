-- A consumer that was ever reset takes its events one by one, as some of its dedupe rows may be void. That is asked before anything is written, under the
-- lock that keeps a reset away: `take_next` moved the positions first, and each of its transactions was rolled back and begun again.
set local role inbox_owner;

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
  if exists (select from inbox.reset r where r.consumer = take_next.consumer) then
    return null;
  end if;
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
   where e.time >= clock_timestamp() - oldest
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
