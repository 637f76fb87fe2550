-- Keys that are only kept because they must be, for years perhaps, are wrapped anew like all others: or the branch keys of today would have to be kept as long.
set local role vault_owner;

create policy rotated_read on vault.restricted_key for select to vault_rotator
  using (class in (select a.class from vault.class_access a where a.login = current_user and a.may_create));
create policy rotated on vault.restricted_key for update to vault_rotator
  using (class in (select a.class from vault.class_access a where a.login = current_user and a.may_create));

grant select (class, key_id, version, subject_kind, subject_id, branch_version, wrapped), update (branch_version, wrapped)
   on vault.restricted_key to vault_rotator;
