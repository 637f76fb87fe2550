-- What the operator's function needs of the inbox, beside the acts of 0002, 0003 and 0005.
set local role inbox_owner;

-- The call of the operator's function that an act belongs to (`outbox.operator_act`); null where somebody connected and called the SQL.
alter table inbox.audit
  add column operator_act bigint default nullif(current_setting('sealed_outbox.operator_act', true), '')::bigint;

-- Who consumes, and which replay they are in; 0: none.
create function inbox.list_consumers()
returns table (consumer_name text, mode text, starting_point text, generation integer, replay_accepted integer)
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
  select c.name, c.mode, c.starting_point, c.generation, c.replay_accepted from inbox.consumer c order by c.name;
end;

grant execute on function inbox.list_consumers(), inbox.held_lag() to inbox_operator;
