-- What consumers keep of personal data: sealed anew for their own rows.
set local role sample_owner;

-- Null in rows of events that name no customer.
alter table sample.ledger_invoice add column customer_name sample.sealed;  -- class contact
alter table sample.notification add column recipient sample.sealed;       -- contact: the address that the provider accepted
