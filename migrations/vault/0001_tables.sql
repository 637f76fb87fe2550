-- Where wrapped keys are kept. It may live in another database than the outbox: nothing here knows of events.
--
--   vault_owner   owns the tables; nobody logs in as it
--   vault_reader  reads the keys of the classes that its login may use
--   vault_writer  reads them too, and creates keys of persons
--
-- A role says what a login may do; vault.class_access says with which classes. Without a row there it sees nothing.
do $$
declare
  name text;
begin
  foreach name in array array['vault_owner', 'vault_reader', 'vault_writer'] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I nologin', name);
    end if;
  end loop;
  if not pg_has_role(current_user, 'vault_owner', 'set') then
    execute format('grant vault_owner to %I with inherit true, set true', current_user);
  end if;
  execute format('grant create on database %I to vault_owner', current_database());
end
$$;

create schema vault authorization vault_owner;

set local role vault_owner;
alter default privileges for role vault_owner revoke execute on functions from public;
grant usage on schema vault to vault_reader, vault_writer;

-- The classes of data that a login may use.
create table vault.class_access (
  login      name not null,
  class      text not null check (class ~ '^[a-z][a-z0-9-]{0,15}$'),
  may_create boolean not null default false,       -- keys of persons, and the first branch key of the class
  primary key (login, class)
);

-- One key per class and version, wrapped by KMS: it wraps the persons' keys.
create table vault.branch_key (
  class      text not null check (class ~ '^[a-z][a-z0-9-]{0,15}$'),
  version    integer not null check (version >= 1),
  state      text not null default 'active' check (state in ('active', 'retired', 'destroyed')),
  kms_key    text not null,                        -- which KMS key wrapped it: an ARN, never an alias, which may come to mean another
  wrapped    bytea,
  created_at timestamptz not null default now(),
  primary key (class, version),
  check ((wrapped is null) = (state = 'destroyed'))
);
-- The one with which new keys are wrapped; retired ones still open.
create unique index branch_key_active on vault.branch_key (class) where state = 'active';

-- The key of a person for a class, wrapped by a branch key. Without bytes: the person is erased, which is not the same as unknown.
create table vault.subject_key (
  class          text not null,
  key_id         text not null check (key_id ~ '^[A-Za-z0-9_-]{21}[AQgw]$'),
  version        integer not null check (version >= 1),
  subject_kind   text not null check (subject_kind <> '' and char_length(subject_kind) <= 200),
  subject_id     text not null check (subject_id <> '' and char_length(subject_id) <= 200),
  branch_version integer not null,
  wrapped        bytea check (octet_length(wrapped) = 65),
  created_at     timestamptz not null default now(),
  primary key (class, key_id, version),
  foreign key (class, branch_version) references vault.branch_key (class, version),
  -- The same person in two spellings would have two keys, and be erased by half.
  check (subject_id !~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' or subject_id = lower(subject_id))
);
-- Of those that create a person's key at once, one wins.
create unique index subject_key_subject on vault.subject_key (class, subject_kind, subject_id, version);

-- Keys of blind indexes, wrapped by KMS.
create table vault.index_key (
  name       text not null check (name ~ '^[a-z][a-z0-9-]{0,62}$'),
  version    integer not null check (version >= 1),
  state      text not null default 'active' check (state in ('active', 'retired', 'destroyed')),
  kms_key    text not null,
  wrapped    bytea,
  created_at timestamptz not null default now(),
  primary key (name, version),
  check ((wrapped is null) = (state = 'destroyed'))
);

-- What of the log of erasures, which is kept outside this database, has been done here.
create table vault.erasure (
  number       bigint primary key check (number >= 1),
  key_ids      text[] not null,
  subject_hmac bytea not null,
  recorded_at  timestamptz not null default now(),
  applied_at   timestamptz                         -- null: begun and not finished
);

alter table vault.class_access enable row level security;
alter table vault.branch_key enable row level security;
alter table vault.subject_key enable row level security;

create policy own on vault.class_access for select to vault_reader, vault_writer using (login = current_user);

create policy of_its_classes on vault.branch_key for select to vault_reader, vault_writer
  using (class in (select a.class from vault.class_access a where a.login = current_user));
create policy of_its_classes on vault.subject_key for select to vault_reader, vault_writer
  using (class in (select a.class from vault.class_access a where a.login = current_user));

-- The first version only: others come by rotation. A key without bytes would say that somebody was erased.
create policy first_of_its_classes on vault.branch_key for insert to vault_writer
  with check (version = 1 and state = 'active'
              and class in (select a.class from vault.class_access a where a.login = current_user and a.may_create));
create policy first_of_its_classes on vault.subject_key for insert to vault_writer
  with check (version = 1 and wrapped is not null
              and class in (select a.class from vault.class_access a where a.login = current_user and a.may_create));

grant select on vault.class_access, vault.branch_key, vault.subject_key to vault_reader, vault_writer;
grant insert (class, version, kms_key, wrapped) on vault.branch_key to vault_writer;
grant insert (class, key_id, version, subject_kind, subject_id, branch_version, wrapped) on vault.subject_key to vault_writer;

-- Gives a login exactly these classes: those that it reads, and those that it also creates keys of. For the owner, at deployment.
create function vault.set_access(of_login name, reads text[], creates text[]) returns void
language sql as $$
  delete from vault.class_access where login = of_login and class <> all (reads || creates);
  insert into vault.class_access (login, class, may_create)
  select of_login, c.class, c.class = any (creates) from (select distinct unnest(reads || creates) as class) c
  on conflict (login, class) do update set may_create = excluded.may_create;
$$;
