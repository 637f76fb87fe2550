-- A replay from the archive waits, like one that is resumed, for what was under way when it began to run: when all archived events are back, and not when it was
-- asked for. A delivery of between, which its consumer had applied and forgotten at its reset, was left out of the plan, and lost for that consumer.
set local role outbox_owner;

create or replace function outbox.end_returning(number integer) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform outbox.change_replay(number, 'end_returning', '{loading}', 'running', 'all archived events are back');
  update outbox.replay r set running_since = clock_timestamp() where r.number = end_returning.number;
end
$$;
