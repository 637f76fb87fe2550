-- From when the years count for which a customer's invoices must be kept: what the law has kept counts from the end of the year of the last one.
set local role sample_owner;

-- {"class": time}; nothing for a person who is no customer, or has no invoice.
create function sample.kept_since(kind text, id text) returns jsonb
language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(
    (select jsonb_build_object('tax', y.ends, 'bank', y.ends)
       from (select date_trunc('year', max(i.issued_at) at time zone 'UTC') at time zone 'UTC' + interval '1 year' as ends
               from sample.invoice i
              where kept_since.kind = 'customer'
                -- What is no UUID is no customer, and would be an error.
                and i.customer_id = case when kept_since.id ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then kept_since.id::uuid end) y
      where y.ends is not null),
    '{}')
$$;
revoke execute on function sample.kept_since(text, text) from public;
grant execute on function sample.kept_since(text, text) to sample_eraser;
