-- What the consumer `notifications` has sent, from events alone. Like the ledger it may live in another database than the invoices.
--
--   sample_notifications  writes down what was sent; sees none of the other tables
do $$
begin
  if not exists (select from pg_roles where rolname = 'sample_notifications') then
    create role sample_notifications nologin;
  end if;
end
$$;

set local role sample_owner;
grant usage on schema sample to sample_notifications;

-- One row for each mail. As in the ledger nothing here keeps an event from having two: that there is one is what is checked.
create table sample.notification (
  notification bigint generated always as identity primary key,
  event_id     uuid not null,
  invoice_id   uuid not null,
  mail_id      text not null check (mail_id <> ''),      -- the provider's id of it; neither address nor text
  noted_at     timestamptz not null default clock_timestamp()
);
create index notification_invoice on sample.notification (invoice_id);

grant select, insert on sample.notification to sample_notifications;
