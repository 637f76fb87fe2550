set local role outbox_owner;

-- 128 bits of SHA-256 over the length-prefixed type and the id: type "a", id "b:c" and type "a:b", id "c" differ.
-- Stable, because only so it is inlined (convert_to is no more than that): as a call it takes 18 µs, inlined 5.
create function outbox.aggregate_key(aggregate_type text, aggregate_id text) returns uuid
language sql stable strict parallel safe
return encode(substring(sha256(
  int4send(octet_length(convert_to(aggregate_type, 'UTF8'))) || convert_to(aggregate_type, 'UTF8') || convert_to(aggregate_id, 'UTF8')
) for 16), 'hex')::uuid;

-- RFC 9562: 48 bits of milliseconds, then random; PostgreSQL 17 has no function of its own.
create function outbox.uuid_v7() returns uuid
language plpgsql volatile parallel safe as $$
begin
  return encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
    placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
    52, 1), 53, 1), 'hex')::uuid;
end
$$;

-- The one way in. Appends events to the outbox inside the caller's transaction: an array of
--
--   { "type", "aggregate_type", "aggregate_id", "data",
--     "id"?              UUID; default: a new UUID v7
--     "schema_version"?  default: the newest that is installed
--     "metadata"?        { "traceparent"?, "correlationid"?, "causationid"? }
--     "occurred_at"? }   RFC 3339; default: the transaction's start
--
-- Returns id and sequence of each, in the array's order. Errors (nothing is appended, the transaction is to be rolled back, or the savepoint before it):
--   OB001  an event is malformed; the message names the field as events[3].aggregate_id
--   OB002  the type or its version is not installed, or belongs to another aggregate type
--   OB003  too large for a destination
--   OB004  synchronous_commit is off: the relay could publish what a crash of the server then takes back
--
-- The row lock of the aggregate's stream is held until the transaction ends: keep transactions short. The aggregates of one call
-- are locked in one order, so two calls never deadlock; two calls in one transaction can (40P01): retry the transaction.
--
-- A loop of small statements, not one large one: their plans are cached, while starting the executor of the large one took
-- 0.6 ms a call, twice as long as all of this. One event, the usual call, does without the statement that sorts (0.05 ms).
-- What runs is made ready anew in every transaction, used or not: hence few expressions, and what is rare in a branch of its own.
create function outbox.append(events jsonb) returns table (id uuid, sequence bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  known constant text[] := array['type', 'aggregate_type', 'aggregate_id', 'data', 'id', 'schema_version', 'metadata', 'occurred_at'];
  count integer;
  -- The events in the order in which their aggregates are locked: each one's place in the array, its number among those of
  -- its aggregate, and how many these are.
  places integer[] := '{1}';
  numbers bigint[] := '{1}';
  counts bigint[] := '{1}';
  e jsonb;
  e_id uuid;
  e_type text;
  e_aggregate_type text;
  e_aggregate_id text;
  e_key uuid;
  e_version integer;
  e_data text;
  e_metadata jsonb;
  e_sequence bigint;
  e_bytes bigint;
  problem text;
  base bigint;
  source_bytes integer;
  destinations smallint[];
  destination smallint;
  max_bytes integer;
  last bigint;
  oversized text;
  ids uuid[] := '{}';
  sequences bigint[] := '{}';
begin
  if current_setting('synchronous_commit') = 'off' then
    raise exception 'synchronous_commit is off: a published event could be lost by a crash of the server. Nothing was appended.'
      using errcode = 'OB004', hint = 'set local synchronous_commit = on';
  end if;
  if jsonb_typeof(events) is distinct from 'array' then
    raise exception 'events must be a JSON array. Nothing was appended.' using errcode = 'OB001';
  end if;

  count := jsonb_array_length(events);
  if count > 1 then
    select array_agg(o.place order by o.n), array_agg(o.number order by o.n), array_agg(o.count order by o.n)
      into places, numbers, counts
      from (select i.place::integer,
                   row_number() over (partition by i.e ->> 'aggregate_type', i.e ->> 'aggregate_id' order by i.place) as number,
                   count(*) over (partition by i.e ->> 'aggregate_type', i.e ->> 'aggregate_id') as count,
                   row_number() over (order by (i.e ->> 'aggregate_type') collate "C", (i.e ->> 'aggregate_id') collate "C", i.place) as n
              from jsonb_array_elements(events) with ordinality as i (e, place)) o;
  end if;

  for n in 1 .. count loop
    e := events -> places[n] - 1;
    e_type := e ->> 'type';
    e_aggregate_type := e ->> 'aggregate_type';
    e_aggregate_id := e ->> 'aggregate_id';
    e_metadata := e -> 'metadata';
    problem := null;
    -- Whether all is well is one expression; what is wrong is asked only then.
    if (jsonb_typeof(e) = 'object' and jsonb_typeof(e -> 'type') = 'string' and jsonb_typeof(e -> 'aggregate_type') = 'string'
        and jsonb_typeof(e -> 'aggregate_id') = 'string' and e ? 'data'
        and e - known = '{}'
        and char_length(e_aggregate_id) between 1 and 200
        and (not e ? 'id' or pg_input_is_valid(e ->> 'id', 'uuid'))
        and (not e ? 'schema_version' or pg_input_is_valid(e ->> 'schema_version', 'integer'))) is not true then
      problem := case
        when jsonb_typeof(e) <> 'object' then ' must be an object'
        when e - known <> '{}' then ' has a key that append does not know'
        when jsonb_typeof(e -> 'type') is distinct from 'string' then '.type must be a string'
        when jsonb_typeof(e -> 'aggregate_type') is distinct from 'string' then '.aggregate_type must be a string'
        when jsonb_typeof(e -> 'aggregate_id') is distinct from 'string' then '.aggregate_id must be a string'
        when char_length(e_aggregate_id) not between 1 and 200 then '.aggregate_id must have 1 to 200 characters'
        when not e ? 'data' then '.data is missing'
        when e ? 'id' and not coalesce(pg_input_is_valid(e ->> 'id', 'uuid'), false) then '.id must be a UUID'
        else '.schema_version must be an integer'
      end;
    end if;
    if problem is null and e_metadata is not null then
      if jsonb_typeof(e_metadata) <> 'object'
         or e_metadata - array['traceparent', 'correlationid', 'causationid'] <> '{}'
         or jsonb_path_exists(e_metadata, '$.* ? (@.type() != "string")')
         or octet_length(e_metadata::text) > 1024 then
        problem := '.metadata may hold traceparent, correlationid and causationid as strings, 1024 bytes together';
      end if;
    end if;
    if problem is null and e ? 'occurred_at' then
      if coalesce(e ->> 'occurred_at', '') !~* '^\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(\.\d+)?(z|[+-]\d\d:\d\d)$'
         or not pg_input_is_valid(e ->> 'occurred_at', 'timestamptz') then
        problem := '.occurred_at must be a date and time as RFC 3339 writes them';
      end if;
    end if;
    if problem is not null then
      raise exception 'events[%]%. Nothing was appended.', places[n] - 1, problem using errcode = 'OB001';
    end if;

    e_version := (e ->> 'schema_version')::integer;
    select t.schema_version, t.aggregate_type, t.destinations, t.max_bytes, i.epoch::bigint << 40, octet_length(to_json(i.source)::text)
      into e_version, problem, destinations, max_bytes, base, source_bytes
      from outbox.event_type t, outbox.installation i
     where t.type = e_type and (e_version is null or t.schema_version = e_version)
     order by t.schema_version desc
     limit 1;
    if not found then
      raise exception 'events[%].type or its schema_version is not in the installed catalogue. Nothing was appended.', places[n] - 1
        using errcode = 'OB002', hint = 'Deploy the catalogue that has it first.';
    elsif problem <> e_aggregate_type then
      raise exception 'events[%].aggregate_type is not the one that the catalogue has for this type. Nothing was appended.', places[n] - 1
        using errcode = 'OB002';
    end if;

    if numbers[n] = 1 then
      insert into outbox.stream as s (aggregate_type, aggregate_id, sequence)
      values (e_aggregate_type, e_aggregate_id, base + counts[n])
      on conflict (aggregate_type, aggregate_id)
        do update set sequence = greatest(s.sequence, base) + counts[n]
      returning s.sequence - counts[n] into last;
      e_key := outbox.aggregate_key(e_aggregate_type, e_aggregate_id);
    end if;
    e_sequence := last + numbers[n];
    e_id := (e ->> 'id')::uuid;
    if e_id is null then
      e_id := outbox.uuid_v7();
    end if;
    e_data := (e -> 'data')::text;
    -- U+FFFE and U+FFFF are legal in JSON, but SQS takes them only as escapes.
    if strpos(e_data, chr(65534)) > 0 or strpos(e_data, chr(65535)) > 0 then
      e_data := replace(replace(e_data, chr(65534), '\ufffe'), chr(65535), '\uffff');
    end if;
    -- Upper bound of the envelope: fixed text, and each attribute as often as it stands there, escapes included. Those two once more in
    -- what is no data: there their escapes are longer than they are.
    e_bytes := 500 + octet_length(e_data) + coalesce(octet_length(e_metadata::text), 0) + 2 * source_bytes
      + 2 * (octet_length(to_json(e_aggregate_id)::text) + octet_length(e_type) + octet_length(e_aggregate_type))
      + case when e_aggregate_id || coalesce(e_metadata #>> '{}', '') ~ '[\uFFFE\uFFFF]' then 3000 else 0 end;
    if e_bytes > max_bytes then
      select format('destination "%s": up to %s bytes with its envelope, at most %s fit', d.name, e_bytes, d.max_bytes) into oversized
        from outbox.route r join outbox.destination d on d.number = r.destination
       where r.type = e_type and d.max_bytes < e_bytes;
      raise exception 'events[%].data is too large for %. Nothing was appended.', places[n] - 1, oversized
        using errcode = 'OB003', hint = 'Store the large part elsewhere and put a reference to it into the event.';
    end if;

    insert into outbox.event (id, aggregate_type, aggregate_id, sequence, type, schema_version, data, metadata, occurred_at)
    values (e_id, e_aggregate_type, e_aggregate_id, e_sequence, e_type, e_version, e_data::json, e_metadata::json,
            coalesce((e ->> 'occurred_at')::timestamptz, now()));

    foreach destination in array destinations loop
      insert into outbox.delivery (event_id, destination, partition, aggregate_key, sequence, bytes)
      values (e_id, destination, get_byte(uuid_send(e_key), 0) & 63, e_key, e_sequence, e_bytes);
    end loop;

    if count = 1 then
      id := e_id;
      sequence := e_sequence;
      return next;
      return;
    end if;
    ids[places[n]] := e_id;
    sequences[places[n]] := e_sequence;
  end loop;

  for n in 1 .. count loop
    id := ids[n];
    sequence := sequences[n];
    return next;
  end loop;
end
$$;

grant execute on function outbox.append(jsonb) to outbox_writer;
