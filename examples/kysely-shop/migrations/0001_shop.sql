-- The shop's own schema, as it was before it had events.
create schema shop;

create table shop.purchase (
  id uuid primary key,
  customer_id uuid not null,
  items integer not null check (items > 0),
  placed_at timestamptz not null default now()
);

-- What shipping makes of the events.
create table shop.parcel (
  purchase_id uuid primary key,
  items integer not null
);

do $$
begin
  if not exists (select from pg_roles where rolname = 'shop_checkout') then create role shop_checkout nologin; end if;
  if not exists (select from pg_roles where rolname = 'shop_shipping') then create role shop_shipping nologin; end if;
end
$$;

grant usage on schema shop to shop_checkout, shop_shipping;
grant select, insert on shop.purchase to shop_checkout;
grant select, insert on shop.parcel to shop_shipping;
