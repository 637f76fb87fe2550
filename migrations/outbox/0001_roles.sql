-- Who may do what. Roles belong to the whole server, so each is made only where it is missing.
--
--   outbox_owner    owns the tables; append() runs with its rights; nobody logs in as it
--   outbox_writer   appends events, and sees nothing
--   outbox_relay    reads events, changes the state of deliveries, never an event
--   outbox_janitor  removes what is old
--   outbox_monitor  counts and looks at ages, never at data
--
-- No superuser is needed: whoever may create roles, as the master user of Aurora, gives itself what it needs.
do $$
declare
  name text;
begin
  foreach name in array array['outbox_owner', 'outbox_writer', 'outbox_relay', 'outbox_janitor', 'outbox_monitor'] loop
    if not exists (select from pg_roles where rolname = name) then
      execute format('create role %I nologin', name);
    end if;
  end loop;
  if not pg_has_role(current_user, 'outbox_owner', 'set') then
    execute format('grant outbox_owner to %I with inherit true, set true', current_user);
  end if;
  execute format('grant create on database %I to outbox_owner', current_database());
end
$$;

create schema outbox authorization outbox_owner;

set local role outbox_owner;
alter default privileges for role outbox_owner revoke execute on functions from public;
grant usage on schema outbox to outbox_writer, outbox_relay, outbox_janitor, outbox_monitor;
