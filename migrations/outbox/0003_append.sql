set local role outbox_owner;

-- 128 bits of SHA-256 over the length-prefixed type and the id: type "a", id "b:c" and type "a:b", id "c" differ.
create function outbox.aggregate_key(aggregate_type text, aggregate_id text) returns uuid
language sql immutable strict parallel safe
return encode(substring(sha256(
  int4send(octet_length(convert_to(aggregate_type, 'UTF8'))) || convert_to(aggregate_type, 'UTF8') || convert_to(aggregate_id, 'UTF8')
) for 16), 'hex')::uuid;

-- RFC 9562: 48 bits of milliseconds, then random; PostgreSQL 17 has no function of its own.
create function outbox.uuid_v7() returns uuid
language sql volatile parallel safe
return encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
  placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6),
  52, 1), 53, 1), 'hex')::uuid;

-- Called from inside append() for the one event that does not fit.
create function outbox.refuse_size(index integer, bytes bigint, destination text, max_bytes integer) returns integer
language plpgsql as $$
begin
  raise exception 'events[%].data is too large for destination "%": up to % bytes with its envelope, at most % fit. Nothing was appended.',
    index, destination, bytes, max_bytes
    using errcode = 'OB003', hint = 'Store the large part elsewhere and put a reference to it into the event.';
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
create function outbox.append(events jsonb) returns table (id uuid, sequence bigint)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  problem text[];
  base bigint;
  event_source text;
begin
  if current_setting('synchronous_commit') = 'off' then
    raise exception 'synchronous_commit is off: a published event could be lost by a crash of the server. Nothing was appended.'
      using errcode = 'OB004', hint = 'set local synchronous_commit = on';
  end if;
  if events is null or jsonb_typeof(events) <> 'array' then
    raise exception 'events must be a JSON array. Nothing was appended.' using errcode = 'OB001';
  end if;

  -- [errcode, field, reason] of the first event that is wrong.
  select array[(i.ordinal - 1)::text] || c.found into problem
    from jsonb_array_elements(events) with ordinality as i (e, ordinal)
    left join lateral (
      select bool_or(t.aggregate_type = i.e ->> 'aggregate_type') as fits
        from outbox.event_type t
       where t.type = i.e ->> 'type'
         and (i.e -> 'schema_version' is null or to_jsonb(t.schema_version) = i.e -> 'schema_version')
    ) t on true
    cross join lateral (
      select case
        when jsonb_typeof(i.e) <> 'object' then array['OB001', '', 'must be an object']
        when i.e - array['type', 'aggregate_type', 'aggregate_id', 'data', 'id', 'schema_version', 'metadata', 'occurred_at'] <> '{}'
          then array['OB001', '', 'has a key that append does not know']
        when jsonb_typeof(i.e -> 'type') is distinct from 'string' then array['OB001', '.type', 'must be a string']
        when jsonb_typeof(i.e -> 'aggregate_type') is distinct from 'string' then array['OB001', '.aggregate_type', 'must be a string']
        when jsonb_typeof(i.e -> 'aggregate_id') is distinct from 'string' then array['OB001', '.aggregate_id', 'must be a string']
        when char_length(i.e ->> 'aggregate_id') not between 1 and 200 then array['OB001', '.aggregate_id', 'must have 1 to 200 characters']
        when i.e -> 'data' is null then array['OB001', '.data', 'is missing']
        when i.e -> 'id' is not null
             and coalesce(i.e ->> 'id', '') !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
          then array['OB001', '.id', 'must be a UUID']
        when i.e -> 'metadata' is not null and (
               jsonb_typeof(i.e -> 'metadata') <> 'object'
               or (i.e -> 'metadata') - array['traceparent', 'correlationid', 'causationid'] <> '{}'
               or jsonb_path_exists(i.e -> 'metadata', '$.* ? (@.type() != "string")')
               or octet_length((i.e -> 'metadata')::text) > 1024)
          then array['OB001', '.metadata', 'may hold traceparent, correlationid and causationid as strings, 1024 bytes together']
        when i.e -> 'occurred_at' is not null
             and (coalesce(i.e ->> 'occurred_at', '') !~* '^\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(\.\d+)?(z|[+-]\d\d:\d\d)$'
                  or not pg_input_is_valid(i.e ->> 'occurred_at', 'timestamptz'))
          then array['OB001', '.occurred_at', 'must be a date and time as RFC 3339 writes them']
        when t.fits is null then array['OB002', '.type', 'or its schema_version is not in the installed catalogue']
        when not t.fits then array['OB002', '.aggregate_type', 'is not the one that the catalogue has for this type']
      end as found
    ) c
   where c.found is not null
   order by i.ordinal
   limit 1;
  if found then
    raise exception 'events[%]% %. Nothing was appended.', problem[1], problem[3], problem[4] using errcode = problem[2];
  end if;

  select epoch::bigint << 40, source into strict base, event_source from outbox.installation;

  return query
  with input as materialized (
    select i.ordinal,
           coalesce((i.e ->> 'id')::uuid, outbox.uuid_v7()) as id,
           i.e ->> 'type' as type,
           i.e ->> 'aggregate_type' as aggregate_type,
           i.e ->> 'aggregate_id' as aggregate_id,
           coalesce((i.e ->> 'schema_version')::integer,
                    (select max(t.schema_version) from outbox.event_type t where t.type = i.e ->> 'type')) as schema_version,
           -- U+FFFE and U+FFFF are legal in JSON, but SQS takes them only as escapes.
           replace(replace((i.e -> 'data')::text, chr(65534), '\ufffe'), chr(65535), '\uffff') as data,
           i.e -> 'metadata' as metadata,
           coalesce((i.e ->> 'occurred_at')::timestamptz, now()) as occurred_at,
           row_number() over (partition by i.e ->> 'aggregate_type', i.e ->> 'aggregate_id' order by i.ordinal) as nth
      from jsonb_array_elements(events) with ordinality as i (e, ordinal)
  ),
  -- Locks the streams in one order, whatever order the caller named them in.
  stream as (
    insert into outbox.stream as s (aggregate_type, aggregate_id, sequence)
    select aggregate_type, aggregate_id, base + count(*)
      from input
     group by aggregate_type, aggregate_id
     order by aggregate_type collate "C", aggregate_id collate "C"
    on conflict (aggregate_type, aggregate_id)
      do update set sequence = greatest(s.sequence, base) + (excluded.sequence - base)
    returning s.aggregate_type, s.aggregate_id, s.sequence
  ),
  numbered as materialized (
    select i.*,
           s.sequence - count(*) over (partition by i.aggregate_type, i.aggregate_id) + i.nth as sequence
      from input i
      join stream s using (aggregate_type, aggregate_id)
  ),
  event as (
    insert into outbox.event (id, aggregate_type, aggregate_id, sequence, type, schema_version, data, metadata, occurred_at)
    select id, aggregate_type, aggregate_id, sequence, type, schema_version, data::json, metadata::json, occurred_at
      from numbered
     order by ordinal
  ),
  sized as (
    select n.*, outbox.aggregate_key(n.aggregate_type, n.aggregate_id) as aggregate_key,
           -- Upper bound of the envelope: fixed text, each attribute as often as it stands there, escapes included.
           500 + octet_length(data) + coalesce(octet_length(metadata::text), 0)
             + 2 * octet_length(to_json(aggregate_id)::text) + 2 * octet_length(type) + 2 * octet_length(aggregate_type)
             + 2 * octet_length(to_json(event_source)::text) as bytes
      from numbered n
  ),
  delivery as (
    insert into outbox.delivery (event_id, destination, partition, aggregate_key, sequence, bytes)
    select z.id, d.number, get_byte(uuid_send(z.aggregate_key), 0) & 63, z.aggregate_key, z.sequence,
           case when z.bytes > d.max_bytes
             then outbox.refuse_size(z.ordinal::integer - 1, z.bytes, d.name, d.max_bytes)
             else z.bytes
           end
      from sized z
      join outbox.route r on r.type = z.type
      join outbox.destination d on d.number = r.destination
     -- The identity follows this order: per destination, positions rise with the sequence.
     order by z.ordinal, d.number
  )
  select n.id, n.sequence from numbered n order by n.ordinal;
end
$$;

grant execute on function outbox.append(jsonb) to outbox_writer;
