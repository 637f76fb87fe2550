set local role outbox_owner;

-- Installs the catalogue of a deployment:
--
--   { "source", "destinations": [{ "name", "kind", "group_id", "max_bytes" }],
--     "event_types": [{ "type", "schema_version", "aggregate_type", "when_parked", "destinations": [name, …] }] }
--
-- Types, versions and destinations are added or changed, never removed: a destination that is not listed is retired. Routes become
-- exactly those listed, for the types that are listed. Safe to repeat. Raises OB005 where a change would break the order of what is already on its way.
create function outbox.install_catalogue(catalogue jsonb) returns void
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

  insert into outbox.event_type (type, schema_version, aggregate_type, when_parked)
  select n.type, n.schema_version, n.aggregate_type, n.when_parked
    from jsonb_to_recordset(catalogue -> 'event_types')
      as n (type text, schema_version integer, aggregate_type text, when_parked text)
  on conflict (type, schema_version) do update set when_parked = excluded.when_parked;

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
