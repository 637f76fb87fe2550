-- Answers to requests are kept for as long as a client may repeat one.
--
--   sample_janitor  calls prune_idempotency, and sees nothing
do $$
begin
  if not exists (select from pg_roles where rolname = 'sample_janitor') then
    create role sample_janitor nologin;
  end if;
end
$$;

set local role sample_owner;
grant usage on schema sample to sample_janitor;
create index idempotency_created on sample.idempotency (created_at);

-- Deletes the oldest `page` answers that are older than `keep`; returns how many. Fewer than `page`: there are no more.
create function sample.prune_idempotency(keep interval, page integer) returns integer
language plpgsql security definer set enable_seqscan = off set search_path = pg_catalog, pg_temp as $$
declare
  deleted integer;
begin
  delete from sample.idempotency i
   where i.key = any (array(
     select o.key from sample.idempotency o
      where o.created_at < clock_timestamp() - prune_idempotency.keep
      order by o.created_at
      limit prune_idempotency.page
        for update skip locked));
  get diagnostics deleted = row_count;
  return deleted;
end
$$;
grant execute on function sample.prune_idempotency(interval, integer) to sample_janitor;
