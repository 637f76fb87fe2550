-- Erasing persons. Keys lose their bytes and keep their rows, so that erased is not the same as unknown.
--
--   vault_eraser             takes keys away from all readers, for good or for as long as they must be kept. It can write no key
--   vault_restricted_reader  beside vault_reader: also opens, in the classes of its login, what is only kept because it must be
do $$
declare
  name text;
begin
  foreach name in array array['vault_eraser', 'vault_restricted_reader'] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I nologin', name);
    end if;
  end loop;
end
$$;

set local role vault_owner;
grant usage on schema vault to vault_eraser, vault_restricted_reader;

-- Who is erased before having a key in a class gets a row there that never had bytes: or the next event would make one.
alter table vault.subject_key
  alter column branch_version drop not null,
  add check (wrapped is null or branch_version is not null);

-- Entries of the log that are done here. `key_names` are written class.id.version.
alter table vault.erasure rename column key_ids to key_names;
alter table vault.erasure
  drop column recorded_at,
  alter column applied_at set default now(),
  alter column applied_at set not null,
  -- When consumers are told once more: caches had the keys until shortly before, and somebody may have written with them.
  add column announce_again_at timestamptz,
  add check (octet_length(subject_hmac) = 32);
create index erasure_subject on vault.erasure (subject_hmac);
create index erasure_announce_again on vault.erasure (announce_again_at) where announce_again_at is not null;

-- All entries up to this number are done here. Readers look into the log from there on; after a restore it is lower than it was.
create table vault.erasure_position (
  is_only boolean primary key default true check (is_only),
  through bigint not null default 0 check (through >= 0)
);
insert into vault.erasure_position default values;

-- What is to be erased. A row goes when it is done.
create table vault.erasure_request (
  subject_kind text not null,
  subject_id   text not null,
  class        text not null,
  subject_hmac bytea not null check (octet_length(subject_hmac) = 32),
  requested_at timestamptz not null default now(),
  due_at       timestamptz not null,               -- it can be cancelled until then
  keep_until   timestamptz,                        -- of a class that must be kept: from due_at until then it is restricted
  primary key (subject_kind, subject_id, class)
);
create index erasure_request_due on vault.erasure_request (due_at);

-- Keys that are taken away from readers and not yet destroyed, because what they open must be kept.
create table vault.restricted_key (
  class          text not null,
  key_id         text not null,
  version        integer not null,
  subject_kind   text not null,
  subject_id     text not null,
  subject_hmac   bytea not null check (octet_length(subject_hmac) = 32),
  branch_version integer not null,
  wrapped        bytea not null check (octet_length(wrapped) = 65),
  keep_until     timestamptz not null,
  primary key (class, key_id, version),
  foreign key (class, key_id, version) references vault.subject_key (class, key_id, version),
  foreign key (class, branch_version) references vault.branch_key (class, version)
);
create index restricted_key_keep_until on vault.restricted_key (keep_until);
create index restricted_key_subject on vault.restricted_key (subject_kind, subject_id, class);
create index restricted_key_branch on vault.restricted_key (class, branch_version);

-- Whoever destroys a branch key looks at persons' keys first; this is for those that do not know of restricted ones.
create function vault.keep_branch_of_restricted() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if exists (select from vault.restricted_key r where r.class = old.class and r.branch_version = old.version) then
    raise exception 'branch key % % still wraps keys that must be kept', old.class, old.version using errcode = 'VA002';
  end if;
  return new;
end
$$;
create trigger keep_branch_of_restricted before update on vault.branch_key
  for each row when (new.wrapped is null and old.wrapped is not null) execute function vault.keep_branch_of_restricted();

alter table vault.restricted_key enable row level security;

create policy all_of_a_person on vault.restricted_key to vault_eraser using (true) with check (true);
create policy of_its_classes on vault.restricted_key for select to vault_restricted_reader
  using (class in (select a.class from vault.class_access a where a.login = current_user));

-- A person is erased in all classes at once, whichever they are.
create policy all_of_a_person on vault.subject_key for select to vault_eraser using (true);
create policy without_bytes on vault.subject_key for insert to vault_eraser with check (wrapped is null);
create policy to_no_bytes on vault.subject_key for update to vault_eraser using (true) with check (wrapped is null);

grant select (class, key_id, version, subject_kind, subject_id, branch_version, wrapped),
      insert (class, key_id, version, subject_kind, subject_id),
      update (wrapped) on vault.subject_key to vault_eraser;
grant select, delete on vault.restricted_key to vault_eraser;
grant insert (class, key_id, version, subject_kind, subject_id, subject_hmac, branch_version, wrapped, keep_until)
   on vault.restricted_key to vault_eraser;
grant select (class, key_id, version, branch_version, wrapped) on vault.restricted_key to vault_restricted_reader;
grant select, delete on vault.erasure_request to vault_eraser;
grant insert (subject_kind, subject_id, class, subject_hmac, due_at, keep_until) on vault.erasure_request to vault_eraser;
grant select, insert (number, key_names, subject_hmac, announce_again_at), update (announce_again_at) on vault.erasure to vault_eraser;
grant select, update (through) on vault.erasure_position to vault_eraser;
grant select (through) on vault.erasure_position to vault_reader, vault_writer;
