-- Rotation: branch keys that follow one another, persons' keys that are wrapped anew, and a value of each class that is opened every day.
--
--   vault_rotator   adds branch keys, wraps keys anew, destroys branch keys that nobody needs; of the classes in which its login may create
--
-- What must hold whoever acts stands in triggers: a key that something is still wrapped with does not go, and nobody who was erased comes back.
do $$
begin
  if not exists (select from pg_roles where rolname = 'vault_rotator') then
    create role vault_rotator nologin;
  end if;
end
$$;

set local role vault_owner;
grant usage on schema vault to vault_rotator;

-- By this database's clock. Nothing is destroyed before an hour has passed: so long, at most, a process wraps with what it has in memory.
alter table vault.branch_key add column retired_at timestamptz;

-- active → retired → destroyed, and no other way.
create function vault.guard_branch_key() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if new.state = old.state then
    return new;
  end if;
  if old.state = 'active' and new.state = 'retired' then
    new.retired_at := clock_timestamp();
    return new;
  end if;
  if old.state = 'retired' and new.state = 'destroyed' then
    -- Waits for whoever is just adding a key under it; those who come later wait for this, and are refused.
    perform from vault.branch_key b where b.class = old.class and b.version = old.version for update;
    if coalesce(old.retired_at, 'infinity') <= clock_timestamp() - interval '1 hour'
       and current_setting('transaction_isolation') = 'read committed'
       and not exists (select from vault.subject_key k
                        where k.class = old.class and k.branch_version = old.version and k.wrapped is not null) then
      return new;
    end if;
  end if;
  raise exception 'branch key % % cannot go from % to %', old.class, old.version, old.state, new.state
    using errcode = 'VA002', hint = 'It is destroyed an hour after it was retired, when no key is wrapped with it any more.';
end
$$;
create trigger guard_branch_key before update on vault.branch_key
  for each row execute function vault.guard_branch_key();

create function vault.keep_active_branch_key() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if not exists (select from vault.branch_key b where b.class = new.class and b.state = 'active') then
    raise exception 'class % would be left without a branch key that is active', new.class using errcode = 'VA003';
  end if;
  return null;
end
$$;
create trigger keep_active_branch_key after update on vault.branch_key
  for each row when (old.state = 'active' and new.state <> 'active') execute function vault.keep_active_branch_key();

-- The foreign key has locked the branch keys by now, so one that is being destroyed was waited for.
create function vault.check_subject_keys() returns trigger
language plpgsql security definer set search_path = pg_catalog as $$
begin
  if exists (select from written w
               join vault.branch_key b on b.class = w.class and b.version = w.branch_version
              where w.wrapped is not null and b.state = 'destroyed') then
    raise exception 'the branch key is destroyed' using errcode = 'VA001', hint = 'Read the vault again and wrap with the active one.';
  end if;
  -- A version that came in between, and that an erasing statement could not see, is erased with the others.
  if tg_op = 'UPDATE' and exists (select from written w where w.wrapped is null) then
    update vault.subject_key k
       set wrapped = null
      from (select distinct class, subject_kind, subject_id from written where wrapped is null) w
     where k.class = w.class and k.subject_kind = w.subject_kind and k.subject_id = w.subject_id and k.wrapped is not null;
  end if;
  return null;
end
$$;
create trigger check_inserted after insert on vault.subject_key referencing new table as written
  for each statement execute function vault.check_subject_keys();
create trigger check_updated after update on vault.subject_key referencing new table as written
  for each statement execute function vault.check_subject_keys();

-- A known value of each class, sealed. It is made once and never again: one that no longer opens must be seen.
create table vault.canary (
  class     text primary key check (class ~ '^[a-z][a-z0-9-]{0,15}$'),
  value     text not null check (starts_with(value, 'sealed.1.')),
  made_at   timestamptz not null default now(),
  opened_at timestamptz
);
alter table vault.canary enable row level security;

create policy own_of_rotator on vault.class_access for select to vault_rotator using (login = current_user);

create policy rotated_read on vault.branch_key for select to vault_rotator
  using (class in (select a.class from vault.class_access a where a.login = current_user and a.may_create));
create policy rotated_add on vault.branch_key for insert to vault_rotator
  with check (version > 1 and state = 'active'
              and class in (select a.class from vault.class_access a where a.login = current_user and a.may_create));
create policy rotated on vault.branch_key for update to vault_rotator
  using (class in (select a.class from vault.class_access a where a.login = current_user and a.may_create));

create policy rotated_read on vault.subject_key for select to vault_rotator
  using (class in (select a.class from vault.class_access a where a.login = current_user and a.may_create));
create policy rotated_add on vault.subject_key for insert to vault_rotator
  with check (version > 1 and wrapped is not null
              and class in (select a.class from vault.class_access a where a.login = current_user and a.may_create));
-- Rows without bytes are out of reach: rotation neither erases anybody nor brings anybody back.
create policy rotated on vault.subject_key for update to vault_rotator
  using (wrapped is not null and class in (select a.class from vault.class_access a where a.login = current_user and a.may_create))
  with check (wrapped is not null and class in (select a.class from vault.class_access a where a.login = current_user and a.may_create));

create policy watched on vault.canary to vault_rotator
  using (class in (select a.class from vault.class_access a where a.login = current_user and a.may_create));

grant select on vault.class_access, vault.branch_key, vault.subject_key, vault.canary to vault_rotator;
grant insert (class, version, kms_key, wrapped), update (state, kms_key, wrapped) on vault.branch_key to vault_rotator;
grant insert (class, key_id, version, subject_kind, subject_id, branch_version, wrapped), update (branch_version, wrapped)
   on vault.subject_key to vault_rotator;
grant insert (class, value), update (opened_at) on vault.canary to vault_rotator;
