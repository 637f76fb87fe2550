-- What people ask of keys. The janitor does it in its next run, so whoever asks needs no key and no right in KMS.
--
--   vault_operator  asks; sees versions and ages of keys, and how many erasures wait. It reads no key and changes none
do $$
begin
  if not exists (select from pg_roles where rolname = 'vault_operator') then
    create role vault_operator nologin;
  end if;
end
$$;

set local role vault_owner;
grant usage on schema vault to vault_operator;

-- A request names the version that is to be followed by another. Where there is a later one it is done, whoever did it and however often he was interrupted.
create table vault.rotation_request (
  class        text not null,
  index_name   text,                               -- the key of this index
  subject_kind text,                               -- the key of this person; neither: the branch key
  subject_id   text,
  version      integer not null,
  requested_at timestamptz not null default now(),
  requested_by name not null default session_user,
  unique nulls not distinct (class, index_name, subject_kind, subject_id),
  check ((subject_kind is null) = (subject_id is null) and (index_name is null or subject_kind is null))
);

-- The newest version of what a request is about; null: there is none, or the person is erased.
create function vault.newest_version(of_class text, of_index text, of_kind text, of_id text) returns integer
language sql stable set search_path = pg_catalog, pg_temp as $$
  select case
    when of_index is not null then (select max(k.version) from vault.index_key k where k.name = of_index)
    when of_kind is not null then
      (select case when k.wrapped is not null then k.version end
         from vault.subject_key k
        where k.class = of_class and k.subject_kind = of_kind and k.subject_id = of_id
        order by k.version desc
        limit 1)
    else (select max(b.version) from vault.branch_key b where b.class = of_class)
  end
$$;

-- Asks for another branch key of a class, or for another key of a person of that class. Answers whether that was not asked for already.
create function vault.request_rotation(of_class text, of_kind text default null, of_id text default null) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  newest integer := vault.newest_version(of_class, null, of_kind, of_id);
begin
  if newest is null then
    raise exception 'there is no such key that could be replaced. Nothing was asked for.' using errcode = 'VA004';
  end if;
  delete from vault.rotation_request r
   where r.class = of_class and r.index_name is null and r.subject_kind is not distinct from of_kind
     and r.subject_id is not distinct from of_id and r.version < newest;
  insert into vault.rotation_request (class, subject_kind, subject_id, version)
  values (of_class, of_kind, of_id, newest)
  on conflict do nothing;
  return found;
end
$$;

-- Asks for another key of a blind index. Answers whether that was not asked for already.
create function vault.request_index_rotation(of_index text) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  newest integer := vault.newest_version(null, of_index, null, null);
begin
  if newest is null then
    raise exception 'there is no index of this name that has a key. Nothing was asked for.' using errcode = 'VA004';
  end if;
  delete from vault.rotation_request r where r.index_name = of_index and r.version < newest;
  insert into vault.rotation_request (class, index_name, version)
  select b.class, b.name, newest from vault.blind_index b where b.name = of_index
  on conflict do nothing;
  return found;
end
$$;

-- What is asked for in the classes whose keys the caller rotates; what is done, or of a person who was erased since, is forgotten.
create function vault.take_rotation_requests()
returns table (class text, index_name text, subject_kind text, subject_id text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  delete from vault.rotation_request r
   where r.version < coalesce(vault.newest_version(r.class, r.index_name, r.subject_kind, r.subject_id), 2147483647)
     and r.class in (select a.class from vault.class_access a where a.login = session_user and a.may_create);
  return query
    select r.class, r.index_name, r.subject_kind, r.subject_id
      from vault.rotation_request r
     where r.class in (select a.class from vault.class_access a where a.login = session_user and a.may_create)
     order by r.requested_at;
end
$$;

-- Keys that wrap or index, without their bytes. Seconds; `requested`: for how long another is asked for.
create function vault.list_keys()
returns table (key text, class text, version integer, state text, kms_key text, age double precision, requested double precision)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select 'branch', b.class, b.version, b.state, b.kms_key, extract(epoch from clock_timestamp() - b.created_at)::float8,
         extract(epoch from clock_timestamp() - r.requested_at)::float8
    from vault.branch_key b
    left join vault.rotation_request r
      on r.class = b.class and r.version = b.version and r.index_name is null and r.subject_kind is null
   where b.state <> 'destroyed'
  union all
  select 'index ' || k.name, i.class, k.version, k.state, k.kms_key, extract(epoch from clock_timestamp() - k.created_at)::float8,
         extract(epoch from clock_timestamp() - r.requested_at)::float8
    from vault.index_key k
    join vault.blind_index i using (name)
    left join vault.rotation_request r on r.index_name = k.name and r.version = k.version
   where k.state <> 'destroyed'
   order by 1, 2, 3
$$;

-- How many persons wait to be erased, are overdue, or have keys that are only kept because they must be; nobody is named. Seconds.
create function vault.erasure_overview()
returns table (waiting integer, overdue integer, overdue_for double precision, kept integer, next_destroyed timestamptz, log_number bigint,
               renewals integer)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select (select count(distinct (e.subject_kind, e.subject_id)) from vault.erasure_request e where e.due_at > now())::integer,
         (select count(distinct (e.subject_kind, e.subject_id)) from vault.erasure_request e where e.due_at <= now())::integer,
         coalesce((select extract(epoch from now() - min(e.due_at)) from vault.erasure_request e where e.due_at <= now()), 0)::float8,
         (select count(distinct (k.subject_kind, k.subject_id)) from vault.restricted_key k)::integer,
         (select min(k.keep_until) from vault.restricted_key k),
         (select p.through from vault.erasure_position p),
         (select count(*) from vault.rotation_request r where r.subject_kind is not null)::integer
$$;

grant execute on function vault.request_rotation(text, text, text), vault.request_index_rotation(text), vault.list_keys(),
  vault.erasure_overview() to vault_operator;
grant execute on function vault.take_rotation_requests() to vault_rotator;
