-- What a consumer acknowledges, or calls another system for, has reached the disk: also where the session, its role or a handler has turned
-- synchronous_commit off. The message is gone after the commit, and a crash of the server could take back effect and dedupe row together.
set local role inbox_owner;

-- The last statement before the commit: nothing of a handler comes behind it. Names are written out instead of a search_path of its own.
create or replace function inbox.finish() returns void
language plpgsql as $$
begin
  if pg_catalog.current_setting('inbox.taken', true) operator(pg_catalog.=) 'on' then
    perform pg_catalog.set_config('inbox.taken', '', true);
    if pg_catalog.current_setting('synchronous_commit') operator(pg_catalog.=) 'off' then
      perform pg_catalog.set_config('synchronous_commit', 'on', true);
    end if;
    return;
  end if;
  raise exception 'a handler ended the transaction that the consumer had opened. Nothing more is committed.' using errcode = 'IB001';
end
$$;

create function inbox.commit_durably() returns trigger
language plpgsql as $$
begin
  if pg_catalog.current_setting('synchronous_commit') operator(pg_catalog.=) 'off' then
    perform pg_catalog.set_config('synchronous_commit', 'on', true);
  end if;
  return null;
end
$$;

-- Once a statement. Deletions are the janitor's, or stand beside one of these.
create trigger commit_durably after insert or update on inbox.held_event for each statement execute function inbox.commit_durably();
create trigger commit_durably after insert or update on inbox.external_call for each statement execute function inbox.commit_durably();
create trigger commit_durably after insert on inbox.audit for each statement execute function inbox.commit_durably();
