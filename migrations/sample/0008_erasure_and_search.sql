-- Customers are found by their e-mail, and erased.
--
--   sample_eraser  clears what of a customer is personal, and sees none of it opened
do $$
begin
  if not exists (select from pg_roles where rolname = 'sample_eraser') then
    create role sample_eraser nologin;
  end if;
end
$$;

set local role sample_owner;

-- The blind index customer-email: key version, version of the normaliser, HMAC. Null where the e-mail is, and in rows of older versions.
alter table sample.customer
  add column email_index bytea check (octet_length(email_index) = 37);
create index customer_email_index on sample.customer (email_index);
grant update (email_index) on sample.customer to sample_api;

-- Whom a mail was sent to; null in rows of older versions and of events that name no customer.
alter table sample.notification add column customer_id uuid;
create index notification_customer on sample.notification (customer_id);
grant update (recipient) on sample.notification to sample_notifications;

grant usage on schema sample to sample_eraser;
grant select (id, name, email, email_index, address, tax_id, iban),
      update (name, email, email_index, address, tax_id, iban) on sample.customer to sample_eraser;
grant select (id, customer_id, issued_at, note, descriptions), update (note, descriptions) on sample.invoice to sample_eraser;
