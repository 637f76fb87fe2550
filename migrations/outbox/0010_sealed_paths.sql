set local role outbox_owner;

-- Where data of a version has to be sealed, as the catalogue's plan says; null, for most, nowhere. { "nodes": [node, …] }, the first for the data
-- as a whole; a node is { "sealed": pattern of the text }, or { "properties": { name: child }, "patterns": [of other names],
-- "others": [child by which of them match: bit n for pattern n], "prefix": [child by index], "items": child of the others }; a child is the number of a
-- node, or null where nothing below has to be sealed.
alter table outbox.event_type add column sealed_paths jsonb;

-- The first place that must be sealed and is not, as code writes it (.lines[0].note); null where all is well. Never a value.
-- For append alone, which has fixed the search_path; of its own it would cost each place anew.
create function outbox.clear_text(value jsonb, plan jsonb, number integer default 0) returns text
language plpgsql immutable parallel safe as $$
declare
  node constant jsonb := plan -> 'nodes' -> number;
  name text;
  item jsonb;
  child jsonb;
  mask integer;
  found text;
begin
  if node ? 'sealed' then
    if value = 'null' or (jsonb_typeof(value) = 'string' and value #>> '{}' ~ (node ->> 'sealed')) then
      return null;
    end if;
    return '';
  end if;
  if jsonb_typeof(value) = 'object' then
    for name, item in select o.key, o.value from jsonb_each(value) as o loop
      if node -> 'properties' ? name then
        child := node -> 'properties' -> name;
      else
        mask := 0;
        for n in 0 .. jsonb_array_length(node -> 'patterns') - 1 loop
          if name ~ (node -> 'patterns' ->> n) then
            mask := mask | (1 << n);
          end if;
        end loop;
        child := node -> 'others' -> mask;
      end if;
      if jsonb_typeof(child) = 'number' then
        found := outbox.clear_text(item, plan, child::integer);
        if found is not null then
          return case when name ~ '^[A-Za-z_$][A-Za-z0-9_$]*$' then '.' || name else '[' || to_json(name)::text || ']' end || found;
        end if;
      end if;
    end loop;
  elsif jsonb_typeof(value) = 'array' then
    for n in 0 .. jsonb_array_length(value) - 1 loop
      child := case when n < jsonb_array_length(node -> 'prefix') then node -> 'prefix' -> n else node -> 'items' end;
      if jsonb_typeof(child) = 'number' then
        found := outbox.clear_text(value -> n, plan, child::integer);
        if found is not null then
          return '[' || n || ']' || found;
        end if;
      end if;
    end loop;
  end if;
  return null;
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
--   OB010  clear text where the catalogue wants it sealed; the message names the place
--
-- The row lock of the aggregate's stream is held until the transaction ends: keep transactions short. The aggregates of one call
-- are locked in one order, so two calls never deadlock; two calls in one transaction can (40P01): retry the transaction.
--
-- A loop of small statements, not one large one: their plans are cached, while starting the executor of the large one took
-- 0.6 ms a call, twice as long as all of this. One event, the usual call, does without the statement that sorts (0.05 ms).
-- What runs is made ready anew in every transaction, used or not: hence few expressions, and what is rare in a branch of its own.
create or replace function outbox.append(events jsonb) returns table (id uuid, sequence bigint)
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
  sealed_paths jsonb;
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
    select t.schema_version, t.aggregate_type, t.destinations, t.max_bytes, i.epoch::bigint << 40, octet_length(to_json(i.source)::text), t.sealed_paths
      into e_version, problem, destinations, max_bytes, base, source_bytes, sealed_paths
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
    if sealed_paths is not null then
      problem := outbox.clear_text(e -> 'data', sealed_paths);
      if problem is not null then
        raise exception 'events[%].data% is clear text and must be sealed. Nothing was appended.', places[n] - 1, problem
          using errcode = 'OB010', hint = 'Append it through the library, with the keys of its persons prepared.';
      end if;
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

-- Installs the catalogue of a deployment:
--
--   { "source", "destinations": [{ "name", "kind", "group_id", "max_bytes" }],
--     "event_types": [{ "type", "schema_version", "aggregate_type", "when_parked", "destinations": [name, …], "sealed_paths"? }] }
--
-- Types, versions and destinations are added or changed, never removed: a destination that is not listed is retired. Routes become
-- exactly those listed, for the types that are listed. Where a version has to be sealed may change, but never becomes nowhere: an older deployment,
-- which knows nothing of it, must not open the door to clear text. Safe to repeat. Raises OB005 where a change would break the order of what is already on its way.
create or replace function outbox.install_catalogue(catalogue jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  broken text;
begin
  -- One installation at a time; appends go on.
  perform from outbox.installation for update;

  select format('destination "%s" was installed as %s with group ids by %s; that is fixed, because messages of both kinds would overtake each other. Name a new destination', d.name, d.kind, d.group_id)
    into broken
    from outbox.destination d
    join jsonb_to_recordset(catalogue -> 'destinations') as n (name text, kind text, group_id text) using (name)
   where (d.kind, d.group_id) is distinct from (n.kind, n.group_id)
   limit 1;
  if broken is null then
    select format('type "%s" belongs to aggregate type "%s"; that is fixed. Name a new type', t.type, t.aggregate_type)
      into broken
      from outbox.event_type t
      join jsonb_to_recordset(catalogue -> 'event_types') as n (type text, aggregate_type text) using (type)
     where t.aggregate_type <> n.aggregate_type
     limit 1;
  end if;
  if broken is not null then
    raise exception '%. Nothing was installed.', broken using errcode = 'OB005';
  end if;

  update outbox.installation set source = catalogue ->> 'source';

  insert into outbox.destination (name, kind, group_id, max_bytes)
  select n.name, n.kind, n.group_id, n.max_bytes
    from jsonb_to_recordset(catalogue -> 'destinations') as n (name text, kind text, group_id text, max_bytes integer)
  on conflict (name) do update set max_bytes = excluded.max_bytes, retired_at = null;

  update outbox.destination d
     set retired_at = now()
   where d.retired_at is null
     and d.name not in (select n.name from jsonb_to_recordset(catalogue -> 'destinations') as n (name text));

  insert into outbox.event_type as t (type, schema_version, aggregate_type, when_parked, sealed_paths)
  select n.type, n.schema_version, n.aggregate_type, n.when_parked, nullif(n.sealed_paths, 'null')
    from jsonb_to_recordset(catalogue -> 'event_types')
      as n (type text, schema_version integer, aggregate_type text, when_parked text, sealed_paths jsonb)
  on conflict (type, schema_version) do update
    set when_parked = excluded.when_parked, sealed_paths = coalesce(excluded.sealed_paths, t.sealed_paths);

  with wanted as (
    select distinct n.type, d.number as destination
      from jsonb_to_recordset(catalogue -> 'event_types') as n (type text, destinations jsonb)
     cross join jsonb_array_elements_text(n.destinations) as r (name)
      join outbox.destination d on d.name = r.name
  ), gone as (
    delete from outbox.route r
     where r.type in (select n.type from jsonb_to_recordset(catalogue -> 'event_types') as n (type text))
       and not exists (select from wanted w where (w.type, w.destination) = (r.type, r.destination))
  )
  insert into outbox.route (type, destination)
  select type, destination from wanted
  on conflict do nothing;

  -- A statement of its own, to see what the one before has made of the routes.
  update outbox.event_type t
     set destinations = array(select r.destination from outbox.route r where r.type = t.type order by r.destination),
         max_bytes = (select min(d.max_bytes) from outbox.route r join outbox.destination d on d.number = r.destination where r.type = t.type);

  insert into outbox.audit (act, detail)
  select 'install_catalogue', jsonb_build_object(
    'event_types', (select count(*) from jsonb_array_elements(catalogue -> 'event_types')),
    'destinations', (select count(*) from jsonb_array_elements(catalogue -> 'destinations')));
end
$$;
