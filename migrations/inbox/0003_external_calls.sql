-- Calls of other systems: who is at it, what is unanswered, and what a person does about those that are held.
--
--   inbox_consumer  reserves, records and holds calls
--   inbox_operator  calls list_held_calls, record_held_call and repeat_held_call; changes no table by itself
--
-- Each act writes inbox.audit with the name of the user who logged in, in the same transaction. Errors; nothing is changed then:
--   IB006  the call is not held
--   IB007  there is no such call
--   IB008  an argument is missing or malformed
set local role inbox_owner;

alter table inbox.external_call
  -- One delivery at a time may ask and call. By this database's clock; no connection is held meanwhile.
  add column lease_token      uuid,
  add column lease_expires_at timestamptz,
  -- When the last call began. Null: none was, or the provider has said that it did nothing.
  add column called_at        timestamptz,
  add column calls            integer not null default 0,
  add column held_reason      text,
  -- An answer is a few ids, not a document.
  add constraint external_call_response check (octet_length(response) <= 16384);

create index external_call_held on inbox.external_call (updated_at) where state = 'held';

-- What waits for a person, the oldest first.
create function inbox.list_held_calls(at_most integer default 100)
returns table (consumer text, event_id uuid, name text, idempotency_key text, reason text, calls integer, called_at timestamptz, held_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  listed integer;
begin
  if at_most is null or at_most not between 1 and 1000 then
    raise exception 'at_most must be between 1 and 1000.' using errcode = 'IB008';
  end if;
  return query
    select c.consumer, c.event_id, c.name, c.idempotency_key, c.held_reason, c.calls, c.called_at, c.updated_at
      from inbox.external_call c
     where c.state = 'held'
     order by c.updated_at
     limit at_most;
  get diagnostics listed = row_count;
  insert into inbox.audit (act, detail) values ('list_held_calls', jsonb_build_object('listed', listed));
end
$$;

-- What both acts begin and end with: the call is held, and the event, where it failed over the call, is tried again.
create function inbox.take_held_call(act text, consumer text, event_id uuid, name text, reason text) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  known text;
begin
  perform inbox.begin_act(take_held_call.reason);
  select c.state into known from inbox.external_call c
   where c.consumer = take_held_call.consumer and c.event_id = take_held_call.event_id and c.name = take_held_call.name
     for update;
  if not found then
    raise exception 'consumer % has made no such call for event %. Nothing was changed.', take_held_call.consumer, take_held_call.event_id
      using errcode = 'IB007', hint = 'inbox.list_held_calls shows those that wait.';
  elsif known <> 'held' then
    raise exception 'this call of event % is %, not held. Nothing was changed.', take_held_call.event_id, known using errcode = 'IB006';
  end if;
  -- The position before the event, as everybody locks them who changes what is held.
  perform from inbox.stream_position p
    join inbox.held_event h using (consumer, aggregate_type, aggregate_id)
   where h.consumer = take_held_call.consumer and h.event_id = take_held_call.event_id
     for update of p;
  update inbox.held_event h set wanted = 'retry', attempts = 0, due_at = '-infinity'
   where h.consumer = take_held_call.consumer and h.event_id = take_held_call.event_id and h.reason = 'failing' and not h.queued;
  insert into inbox.audit (act, detail)
  values (take_held_call.act, jsonb_build_object('consumer', take_held_call.consumer, 'event_id', take_held_call.event_id,
    'name', take_held_call.name, 'why', take_held_call.reason));
end
$$;

-- It happened: the answer that the next delivery of the event is given.
create function inbox.record_held_call(consumer text, event_id uuid, name text, answer json, reason text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if answer is null or octet_length(answer::text) > 16384 then
    raise exception 'answer must be JSON of at most 16384 bytes. Nothing was changed.' using errcode = 'IB008';
  end if;
  perform inbox.take_held_call('record_held_call', record_held_call.consumer, record_held_call.event_id, record_held_call.name, record_held_call.reason);
  update inbox.external_call c
     set state = 'done', response = answer::text, held_reason = null, updated_at = clock_timestamp()
   where c.consumer = record_held_call.consumer and c.event_id = record_held_call.event_id and c.name = record_held_call.name;
end
$$;

-- It did not happen, or may happen twice: the next delivery of the event makes it, with the same key.
create function inbox.repeat_held_call(consumer text, event_id uuid, name text, reason text) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform inbox.take_held_call('repeat_held_call', repeat_held_call.consumer, repeat_held_call.event_id, repeat_held_call.name, repeat_held_call.reason);
  update inbox.external_call c
     set state = 'reserved', called_at = null, held_reason = null, updated_at = clock_timestamp()
   where c.consumer = repeat_held_call.consumer and c.event_id = repeat_held_call.event_id and c.name = repeat_held_call.name;
end
$$;

grant execute on function
  inbox.list_held_calls(integer), inbox.record_held_call(text, uuid, text, json, text), inbox.repeat_held_call(text, uuid, text, text)
  to inbox_operator;
