-- How old the oldest transaction of this database is, and what it holds back, for a monitor that may see nothing else of other sessions.
--
--   outbox_observer  owns the one function that reads other sessions' times; nobody logs in as it
--   outbox_monitor   calls that function, and sees neither statements nor users nor addresses
--
-- Times of other sessions are shown to members of pg_read_all_stats alone. A superuser, and the master user of Aurora and RDS (through pg_monitor), may give that. Where this user
-- may not, an administrator does it once: grant pg_read_all_stats to outbox_observer. Until then both ages are null.
do $$
declare
  name text;
begin
  if not exists (select from pg_roles where rolname = 'outbox_observer') then
    create role outbox_observer nologin;
  end if;
  if not pg_has_role(current_user, 'outbox_observer', 'set') then
    execute format('grant outbox_observer to %I with inherit false, set true', current_user);
  end if;
  foreach name in array array['pg_read_all_stats', 'pg_monitor'] loop
    exit when pg_has_role('outbox_observer', 'pg_read_all_stats', 'usage');
    if pg_has_role(current_user, name, 'usage with admin option')
       or (select rolsuper from pg_roles where rolname = current_user) then
      execute format('grant %I to outbox_observer', name);
    end if;
  end loop;
end
$$;

-- One row, about this database but for the last two columns, which are about the whole server:
--   oldest_transaction  seconds since the oldest open transaction began, prepared ones too; 0: none is open
--   snapshot_age        how many transactions ago the oldest row version was deleted that a session, a prepared transaction or a replication slot keeps from being cleaned up
--   transaction_id_age  how many transactions (or multixacts) ago the oldest database was frozen; writes stop before 2 billion
--   connections_used    percent of max_connections
-- The session that asks does not count, nor do vacuums, which hold nothing back.
create function outbox.database_age()
returns table (oldest_transaction double precision, snapshot_age double precision, transaction_id_age double precision, connections_used double precision)
language sql volatile security definer set search_path = pg_catalog, pg_temp
begin atomic
  with session as (
    select a.xact_start, greatest(age(a.backend_xid), age(a.backend_xmin)) as held
      from pg_stat_activity a
     where a.backend_type = 'client backend' and a.datname = current_database() and a.pid <> pg_backend_pid()
  ), prepared as (
    select p.prepared, age(p.transaction) as held from pg_prepared_xacts p where p.database = current_database()
  ), slot as (
    select greatest(age(s.xmin), age(s.catalog_xmin)) as held
      from pg_replication_slots s
     where s.database is null or s.database = current_database()
  ), seen as (
    select pg_has_role('pg_read_all_stats', 'usage') as everything
  )
  select case when seen.everything then greatest(0, coalesce(extract(epoch from clock_timestamp() - least(
           (select min(s.xact_start) from session s), (select min(p.prepared) from prepared p))), 0))::float8 end,
         case when seen.everything then greatest(0,
           (select max(s.held) from session s), (select max(p.held) from prepared p), (select max(s.held) from slot s))::float8 end,
         (select max(greatest(age(d.datfrozenxid), mxid_age(d.datminmxid))) from pg_database d)::float8,
         (select 100 * sum(b.numbackends) from pg_stat_database b)::float8 / current_setting('max_connections')::float8
    from seen;
end;

revoke execute on function outbox.database_age() from public;
grant execute on function outbox.database_age() to outbox_monitor;
-- A function's owner must be able to make things where it lies, for this moment.
grant create on schema outbox to outbox_observer;
alter function outbox.database_age() owner to outbox_observer;
revoke create on schema outbox from outbox_observer;
