set local role outbox_owner;

-- The first place that must be sealed and is not, as code writes it (.lines[0].note); null where all is well. Never a value.
-- For append alone, which has fixed the search_path; of its own it would cost each place anew.
create or replace function outbox.clear_text(value jsonb, plan jsonb, number integer default 0) returns text
language plpgsql immutable parallel safe as $$
declare
  node constant jsonb := plan -> 'nodes' -> number;
  name text;
  item jsonb;
  child jsonb;
  mask integer;
  found text;
  sealed text;
  class text;
  key_id text;
begin
  if node ? 'sealed' then
    if value = 'null' then
      return null;
    end if;
    if jsonb_typeof(value) <> 'string' then
      return '';
    end if;
    sealed := value #>> '{}';
    class := split_part(sealed, '.', 3);
    key_id := split_part(sealed, '.', 4);
    -- What the pattern says, where it is the one that sealing makes; with its counts taken out of it, because PostgreSQL builds an automaton of so many
    -- states for every text: five fields took 3,100 µs with them and take 31 without, on the same busy machine.
    if node ->> 'sealed' = '^(erased\.1|sealed\.1\.' || class || '\.[A-Za-z0-9_-]{21}[AQgw]\.[1-9][0-9]{0,9}\.[A-Za-z0-9_-]{86,})$'
       and length(key_id) = 22 and right(key_id, 1) in ('A', 'Q', 'g', 'w')
       and length(split_part(sealed, '.', 5)) <= 10
       and length(split_part(sealed, '.', 6)) >= 86
       and sealed ~ '^sealed\.1\.[a-z0-9-]+\.[A-Za-z0-9_-]+\.[1-9][0-9]*\.[A-Za-z0-9_-]+$' then
      return null;
    end if;
    -- The mark of an erased person, and what is wrong.
    return case when sealed ~ (node ->> 'sealed') then null else '' end;
  end if;
  if jsonb_typeof(value) = 'object' then
    for name, item in select o.key, o.value from jsonb_each(value) as o loop
      if node -> 'properties' ? name then
        child := node -> 'properties' -> name;
      else
        mask := 0;
        for n in 0 .. jsonb_array_length(node -> 'patterns') - 1 loop
          if name ~ (node -> 'patterns' ->> n) then
            mask := mask | (1 << n);
          end if;
        end loop;
        child := node -> 'others' -> mask;
      end if;
      if jsonb_typeof(child) = 'number' then
        found := outbox.clear_text(item, plan, child::integer);
        if found is not null then
          return case when name ~ '^[A-Za-z_$][A-Za-z0-9_$]*$' then '.' || name else '[' || to_json(name)::text || ']' end || found;
        end if;
      end if;
    end loop;
  elsif jsonb_typeof(value) = 'array' then
    for n in 0 .. jsonb_array_length(value) - 1 loop
      child := case when n < jsonb_array_length(node -> 'prefix') then node -> 'prefix' -> n else node -> 'items' end;
      if jsonb_typeof(child) = 'number' then
        found := outbox.clear_text(value -> n, plan, child::integer);
        if found is not null then
          return '[' || n || ']' || found;
        end if;
      end if;
    end loop;
  end if;
  return null;
end
$$;
