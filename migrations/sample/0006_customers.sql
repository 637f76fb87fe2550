-- Customers, and what of invoices is personal: sealed, each value for its row and column.
set local role sample_owner;

-- A sealed value, or the mark of a person who was erased before it was written. Clear text is refused, whoever writes.
create domain sample.sealed as text
  check (value ~ '^(sealed\.1\.[a-z][a-z0-9-]{0,15}\.[A-Za-z0-9_-]{22}\.[1-9][0-9]{0,9}\.[A-Za-z0-9_-]+|erased\.1)$');

-- A customer as it was named last. The id says nothing about the person.
create table sample.customer (
  id         uuid primary key,
  name       sample.sealed,                    -- class contact
  email      sample.sealed,                    -- contact
  address    sample.sealed,                    -- contact
  tax_id     sample.sealed,                    -- tax
  iban       sample.sealed,                    -- bank
  updated_at timestamptz not null default now()
);

-- Null in invoices from before: their lines hold the descriptions.
alter table sample.invoice
  add column note         sample.sealed,       -- contact
  add column descriptions sample.sealed;       -- contact: of the lines, in their order, as one value

-- A customer's invoices: where its personal data is cleared or looked for.
create index invoice_customer on sample.invoice (customer_id);

-- An answer with personal data, together with the hash of its request: a hash in clear would tell whoever can guess the rest of a
-- request one short number in it, such as a tax id. Then `body` is null and `request_sha256` covers method and path only.
alter table sample.idempotency
  add column sealed_answer sample.sealed,      -- contact
  add check (body is null or sealed_answer is null);

grant select, insert on sample.customer to sample_api;
grant update (name, email, address, tax_id, iban, updated_at) on sample.customer to sample_api;
grant update (sealed_answer) on sample.idempotency to sample_api;
