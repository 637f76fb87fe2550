-- Keys of blind indexes: which login may use which index, and how a key follows another.
--
--   vault_index_rotator  adds, promotes and destroys keys of indexes; it reads none
--
-- A key is `next` (searched for, not written), then `active` (written), then `retired` (searched for until no column holds its values),
-- then `destroyed`. Processes ask every four minutes which keys live, and use no answer longer than five: so each step waits ten.
do $$
begin
  if not exists (select from pg_roles where rolname = 'vault_index_rotator') then
    create role vault_index_rotator nologin;
  end if;
end
$$;

set local role vault_owner;
grant usage on schema vault to vault_index_rotator;

-- Over values of which class an index is.
create table vault.blind_index (
  name  text primary key check (name ~ '^[a-z][a-z0-9-]{0,62}$'),
  class text not null check (class ~ '^[a-z][a-z0-9-]{0,15}$')
);

-- The indexes that a login may use. With the key of an index all values can be tried, without opening any: so the class alone does not give it.
create table vault.index_access (
  login name not null,
  name  text not null references vault.blind_index (name),
  primary key (login, name)
);

alter table vault.index_key
  add column state_since timestamptz not null default now(),
  drop constraint index_key_state_check,
  add constraint index_key_state_check check (state in ('next', 'active', 'retired', 'destroyed')),
  add constraint index_key_name_fkey foreign key (name) references vault.blind_index (name);
create unique index index_key_active on vault.index_key (name) where state = 'active';
create unique index index_key_next on vault.index_key (name) where state = 'next';

alter table vault.blind_index enable row level security;
alter table vault.index_access enable row level security;
alter table vault.index_key enable row level security;

create policy own on vault.index_access for select to vault_reader, vault_writer using (login = current_user);
create policy its_indexes on vault.blind_index for select to vault_reader, vault_writer
  using (name in (select a.name from vault.index_access a where a.login = current_user));
create policy its_indexes on vault.index_key for select to vault_reader, vault_writer
  using (name in (select a.name from vault.index_access a where a.login = current_user));
create policy first_of_its_indexes on vault.index_key for insert to vault_writer
  with check (version = 1 and state = 'active'
              and name in (select a.name from vault.index_access a where a.login = current_user));

grant select on vault.index_access, vault.blind_index, vault.index_key to vault_reader, vault_writer;
grant insert (name, version, kms_key, wrapped) on vault.index_key to vault_writer;

-- Gives a login exactly these indexes, as {"name": "class"}. For the owner, at deployment.
create function vault.set_index_access(of_login name, indexes jsonb) returns void
language plpgsql as $$
declare
  other text;
begin
  insert into vault.blind_index (name, class)
  select i.key, i.value from jsonb_each_text(indexes) i
  on conflict (name) do nothing;
  select b.name into other
    from vault.blind_index b join jsonb_each_text(indexes) i on i.key = b.name
   where b.class <> i.value;
  if other is not null then
    raise exception 'The index "%" is over another class already. Nothing was changed: give the new index another name.', other
      using errcode = '22023';
  end if;
  delete from vault.index_access where login = of_login and not indexes ? index_access.name;
  insert into vault.index_access (login, name)
  select of_login, i.key from jsonb_each_text(indexes) i
  on conflict do nothing;
end
$$;

-- Where the rotation of an index stands; no row for one without keys.
create function vault.index_rotation(of_name text) returns table (
  class text, newest_version integer, next_version integer, active_version integer, retired_versions integer[], settled boolean
)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select b.class, max(k.version), max(k.version) filter (where k.state = 'next'), max(k.version) filter (where k.state = 'active'),
         coalesce(array_agg(k.version order by k.version) filter (where k.state = 'retired'), '{}'),
         -- By now every process knows what changed last.
         max(k.state_since) filter (where k.state <> 'destroyed') <= clock_timestamp() - interval '10 minutes'
    from vault.index_key k join vault.blind_index b using (name)
   where k.name = of_name
   group by b.class
$$;

-- Adds the key that follows, unless there is one that has not become active yet. Answers whether it did.
create function vault.add_index_key(of_name text, of_version integer, of_kms_key text, of_wrapped bytea) returns boolean
language sql security definer set search_path = pg_catalog, pg_temp as $$
  with added as (
    insert into vault.index_key (name, version, state, kms_key, wrapped)
    select of_name, of_version, 'next', of_kms_key, of_wrapped
     where of_version = (select max(k.version) + 1 from vault.index_key k where k.name = of_name)
    on conflict do nothing
    returning 1
  )
  select exists (select from added)
$$;

-- Makes the next key the active one, ten minutes after it was added. Answers whether it did.
create function vault.promote_index_key(of_name text, of_version integer) returns boolean
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform from vault.index_key
    where name = of_name and version = of_version and state = 'next'
      and state_since <= clock_timestamp() - interval '10 minutes'
      for update;
  if not found then
    return false;
  end if;
  update vault.index_key set state = 'retired', state_since = clock_timestamp() where name = of_name and state = 'active';
  update vault.index_key set state = 'active', state_since = clock_timestamp() where name = of_name and version = of_version;
  return true;
end
$$;

-- Destroys the keys of an index that are retired, ten minutes after the last was. For who has seen that no column holds their values. Answers how many.
create function vault.destroy_index_keys(of_name text, below integer) returns integer
language sql security definer set search_path = pg_catalog, pg_temp as $$
  with destroyed as (
    update vault.index_key set state = 'destroyed', wrapped = null, state_since = clock_timestamp()
     where name = of_name and version < below and state = 'retired' and state_since <= clock_timestamp() - interval '10 minutes'
    returning 1
  )
  select count(*)::integer from destroyed
$$;

grant execute on function vault.index_rotation, vault.add_index_key, vault.promote_index_key, vault.destroy_index_keys to vault_index_rotator;
