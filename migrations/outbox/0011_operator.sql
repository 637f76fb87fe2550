-- The operator's function: looks at what waits that need no other role, and a record of each of its calls.
--
--   outbox_operator  calls all of these, and still reads and changes no table
set local role outbox_owner;

-- One row for each call, written before anything is done and completed afterwards, so that no act is without one. The acts themselves write
-- outbox.audit and inbox.audit, in their own transactions, with the number of this row.
create table outbox.operator_act (
  number      bigint generated always as identity primary key,
  started_at  timestamptz not null default clock_timestamp(),
  actor       text not null default session_user,
  claimed_by  text not null,                      -- who the caller says they are. The proof is in CloudTrail, under request_id
  request_id  text not null,                      -- of the function's invocation
  command     text not null,
  arguments   jsonb not null,
  reason      text,                               -- null: a look
  finished_at timestamptz,
  outcome     text check (outcome in ('done', 'refused', 'failed')), -- null: under way, or cut off: nobody knows
  detail      jsonb
);

-- The call of the operator's function that an act belongs to; null where somebody connected and called the SQL.
alter table outbox.audit
  add column operator_act bigint default nullif(current_setting('sealed_outbox.operator_act', true), '')::bigint;

-- Records a call that begins, and has what this session then writes into the audits carry its number.
create function outbox.begin_operator_act(claimed_by text, request_id text, command text, arguments jsonb, reason text)
returns bigint
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  begun bigint;
begin
  if coalesce(char_length(btrim(claimed_by)), 0) not between 1 and 300
     or coalesce(char_length(btrim(request_id)), 0) not between 1 and 100
     or coalesce(char_length(btrim(command)), 0) not between 1 and 100
     or coalesce(jsonb_typeof(arguments) <> 'object', true) or char_length(reason) > 500 then
    raise exception 'claimed_by, request_id, command and arguments must be given. Nothing was done.' using errcode = 'OB008';
  end if;
  insert into outbox.operator_act (claimed_by, request_id, command, arguments, reason)
  values (begin_operator_act.claimed_by, begin_operator_act.request_id, begin_operator_act.command, begin_operator_act.arguments,
          begin_operator_act.reason)
  returning number into strict begun;
  perform set_config('sealed_outbox.operator_act', begun::text, false);
  return begun;
end
$$;

-- Says how a call ended: once, and only the one who began it.
create function outbox.end_operator_act(number bigint, outcome text, detail jsonb) returns void
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
begin
  update outbox.operator_act a
     set outcome = end_operator_act.outcome, detail = end_operator_act.detail, finished_at = clock_timestamp()
   where a.number = end_operator_act.number and a.outcome is null and a.actor = session_user
     and end_operator_act.outcome is not null;
  if not found then
    raise exception 'there is no call % of this user that is under way.', end_operator_act.number using errcode = 'OB007';
  end if;
end
$$;

-- Calls, the newest first, a page at a time: `before` is the last number of the page before.
create function outbox.list_operator_acts(before bigint default null, at_most integer default 50)
returns setof outbox.operator_act
language plpgsql stable security definer set search_path = pg_catalog, pg_temp as $$
begin
  if at_most is null or at_most not between 1 and 1000 then
    raise exception 'at_most must be between 1 and 1000.' using errcode = 'OB008';
  end if;
  return query
    select a.* from outbox.operator_act a
     where before is null or a.number < before
     order by a.number desc
     limit at_most;
end
$$;

-- What waits at each destination: the independent view of the outbox, in one snapshot and by the database's clock. Seconds; orphaned: blocked with
-- nothing parked below. `relay_silence` is the same in each row: since when no relay was seen; null: none ever was.
--
-- Parked heads are gathered once and joined: a search per blocked row would walk its whole chain where nothing is parked. 200,000 blocked
-- rows of one aggregate take 0.7 s so.
create function outbox.lag()
returns table (
  destination_name text, retired boolean, pending bigint, oldest_pending_age double precision, parked bigint, blocked bigint,
  orphaned bigint, relay_silence double precision)
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
  with head as materialized (
    select d.destination, d.aggregate_key, min(d.sequence) as sequence
      from outbox.delivery d
     where d.state = 'parked' and d.replay = 0
     group by d.destination, d.aggregate_key
  )
  select g.name, g.retired_at is not null,
         count(w.position) filter (where w.state = 'pending'),
         greatest(0, coalesce(extract(epoch from clock_timestamp() - min(w.created_at) filter (where w.state = 'pending')), 0))::float8,
         count(w.position) filter (where w.state = 'parked'),
         count(w.position) filter (where w.state = 'blocked'),
         count(w.position) filter (where w.state = 'blocked' and (head.sequence is null or head.sequence > w.sequence)),
         (select extract(epoch from clock_timestamp() - max(r.seen_at)) from outbox.relay r)::float8
    from outbox.destination g
    left join outbox.delivery w
      on w.destination = g.number and w.replay = 0 and w.state in ('pending', 'parked', 'blocked')
    left join head
      on w.state = 'blocked' and head.destination = w.destination and head.aggregate_key = w.aggregate_key
   group by g.number
   order by g.name;
end;

-- Whose database this is, and who holds its partitions now.
create function outbox.show_installation()
returns table (source text, cluster text, epoch integer, partitions bigint, leased bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
  select i.source, i.cluster, i.epoch, count(p.number), count(p.number) filter (where p.lease_expires_at > clock_timestamp())
    from outbox.installation i
   cross join outbox.partition p
   group by i.source, i.cluster, i.epoch;
end;

-- Relays, the last seen first: those of the last day at most. Seconds.
create function outbox.list_relays(at_most integer default 20)
returns table (slot text, started_at timestamptz, silence double precision, ended boolean, partitions bigint)
language sql stable security definer set search_path = pg_catalog, pg_temp
begin atomic
  select r.slot, r.started_at, greatest(0, extract(epoch from clock_timestamp() - r.seen_at))::float8, r.ended_at is not null,
         (select count(*) from outbox.partition p where p.lease_owner = r.owner and p.lease_expires_at > clock_timestamp())
    from outbox.relay r
   order by r.seen_at desc
   limit at_most;
end;

-- The number of a destination that must be there where a name is given.
create function outbox.destination_number(name text) returns smallint
language plpgsql stable set search_path = pg_catalog, pg_temp as $$
declare
  number smallint;
begin
  if name is not null then
    select g.number into number from outbox.destination g where g.name = destination_number.name;
    if not found then
      raise exception 'there is no destination of this name in the installed catalogue.' using errcode = 'OB007';
    end if;
  end if;
  return number;
end
$$;

-- What waits to be sent, the oldest of each destination: which head is being retried, and why.
create function outbox.list_pending(destination text default null, at_most integer default 20)
returns table (
  "position" bigint, event_id uuid, destination_name text, type text, aggregate_type text, aggregate_id text, sequence bigint,
  attempts integer, last_error text, due_in double precision, created_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
#variable_conflict use_column
declare
  wanted smallint := outbox.destination_number(list_pending.destination);
  listed integer;
begin
  if at_most is null or at_most not between 1 and 1000 then
    raise exception 'at_most must be between 1 and 1000.' using errcode = 'OB008';
  end if;
  return query
    select w.position, w.event_id, g.name, coalesce(e.type, ''), coalesce(e.aggregate_type, ''), coalesce(e.aggregate_id, ''),
           w.sequence, w.attempts, w.last_error,
           case when w.due_at <= clock_timestamp() then 0 else date_part('epoch', w.due_at - clock_timestamp()) end, w.created_at
      from outbox.destination g
     cross join lateral (
       select d.* from outbox.delivery d
        where d.destination = g.number and d.state = 'pending' and d.replay = 0
        order by d.xid, d.position
        limit at_most) w
      left join outbox.event e on e.id = w.event_id
     where wanted is null or g.number = wanted
     order by w.created_at, w.position
     limit at_most;
  get diagnostics listed = row_count;
  insert into outbox.audit (act, detail)
  values ('list_pending', jsonb_build_object('destination', list_pending.destination, 'listed', listed));
end
$$;

-- Which aggregates are blocked, and behind which parked delivery; `head` is null where they are orphaned, and those come first.
create function outbox.list_blocked(at_most integer default 20)
returns table (
  destination_name text, aggregate_type text, aggregate_id text, blocked bigint, from_sequence bigint, head bigint)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
#variable_conflict use_column
declare
  listed integer;
begin
  if at_most is null or at_most not between 1 and 1000 then
    raise exception 'at_most must be between 1 and 1000.' using errcode = 'OB008';
  end if;
  return query
    with chain as materialized (
      select d.destination, d.aggregate_key, count(*) as blocked, min(d.sequence) as from_sequence,
             (array_agg(d.event_id order by d.sequence))[1] as first_event
        from outbox.delivery d
       where d.state = 'blocked' and d.replay = 0
       group by d.destination, d.aggregate_key
    ), head as materialized (
      select d.destination, d.aggregate_key, min(d.sequence) as sequence, (array_agg(d.position order by d.sequence))[1] as position
        from outbox.delivery d
       where d.state = 'parked' and d.replay = 0
       group by d.destination, d.aggregate_key
    )
    select g.name, coalesce(e.aggregate_type, ''), coalesce(e.aggregate_id, ''), c.blocked, c.from_sequence,
           case when h.sequence < c.from_sequence then h.position end
      from chain c
      join outbox.destination g on g.number = c.destination
      left join head h on h.destination = c.destination and h.aggregate_key = c.aggregate_key
      left join outbox.event e on e.id = c.first_event
     order by (case when h.sequence < c.from_sequence then h.position end) nulls first, g.name, c.from_sequence
     limit at_most;
  get diagnostics listed = row_count;
  insert into outbox.audit (act, detail) values ('list_blocked', jsonb_build_object('listed', listed));
end
$$;

-- How far an aggregate has come: its last sequence, and what of it is not yet out at each destination, from the lowest on. What is not listed, up to that
-- sequence, is published or set aside, or its type has no route there.
create function outbox.show_aggregate(aggregate_type text, aggregate_id text, at_most integer default 100)
returns table (
  last_sequence bigint, "position" bigint, event_id uuid, destination_name text, type text, sequence bigint, state text,
  attempts integer, last_error text, created_at timestamptz)
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
#variable_conflict use_column
declare
  key uuid := outbox.aggregate_key(aggregate_type, aggregate_id);
  last bigint;
begin
  if at_most is null or at_most not between 1 and 1000 then
    raise exception 'at_most must be between 1 and 1000.' using errcode = 'OB008';
  end if;
  select s.sequence into last from outbox.stream s
   where s.aggregate_type = show_aggregate.aggregate_type and s.aggregate_id = show_aggregate.aggregate_id;
  if not found then
    raise exception 'no event of this aggregate was ever written here.' using errcode = 'OB007';
  end if;
  insert into outbox.audit (act, detail)
  values ('show_aggregate', jsonb_build_object('aggregate_type', show_aggregate.aggregate_type, 'aggregate_id', show_aggregate.aggregate_id));
  return query
    select last, w.position, w.event_id, w.name, e.type, w.sequence, w.state, w.attempts, w.last_error, w.created_at
      from (select) one
      left join lateral (
        select d.position, d.event_id, g.name, d.sequence, d.state::text as state, d.attempts, d.last_error, d.created_at
          from outbox.destination g
          join outbox.delivery d on d.destination = g.number
         where d.aggregate_key = key and d.replay = 0 and d.state in ('pending', 'parked', 'blocked')
         order by d.sequence, g.name
         limit at_most) w on true
      left join outbox.event e on e.id = w.event_id;
end
$$;

-- One parked delivery. What the event says only where it is asked for, which the audit keeps: as it was written, so what is sealed stays sealed.
create function outbox.show_parked("position" bigint, with_data boolean default false)
returns table (
  event_id uuid, destination_name text, type text, schema_version integer, when_parked text, aggregate_type text, aggregate_id text,
  sequence bigint, attempts integer, run integer, replay integer, last_error text, bytes integer, occurred_at timestamptz,
  created_at timestamptz, blocked_behind bigint, data text, metadata text)
language plpgsql security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
#variable_conflict use_column
declare
  d outbox.delivery;
begin
  select p.* into d from outbox.delivery p where p.position = show_parked.position and p.state = 'parked';
  if not found then
    raise exception 'there is no parked delivery %.', show_parked.position
      using errcode = 'OB007', hint = 'outbox.list_parked shows those that wait for a person.';
  end if;
  insert into outbox.audit (act, detail)
  values ('show_parked', outbox.describe(d) || jsonb_build_object('with_data', coalesce(with_data, false)));
  return query
    select d.event_id, g.name, coalesce(e.type, ''), coalesce(e.schema_version, 0), outbox.policy_of(d.event_id),
           coalesce(e.aggregate_type, ''), coalesce(e.aggregate_id, ''), d.sequence, d.attempts, d.run, d.replay, d.last_error, d.bytes,
           e.occurred_at, d.created_at,
           (select count(*)
              from outbox.delivery b
             where b.destination = d.destination and b.aggregate_key = d.aggregate_key and b.replay = 0
               and b.state = 'blocked' and b.sequence > d.sequence and d.replay = 0),
           case when with_data then e.data::text end, case when with_data then e.metadata::text end
      from outbox.destination g
      left join outbox.event e on e.id = d.event_id
     where g.number = d.destination;
end
$$;

grant execute on function outbox.lag() to outbox_monitor, outbox_operator;
grant execute on function
  outbox.begin_operator_act(text, text, text, jsonb, text), outbox.end_operator_act(bigint, text, jsonb),
  outbox.list_operator_acts(bigint, integer), outbox.show_installation(), outbox.list_relays(integer),
  outbox.list_pending(text, integer), outbox.list_blocked(integer), outbox.show_aggregate(text, text, integer),
  outbox.show_parked(bigint, boolean)
  to outbox_operator;
grant select on outbox.operator_act to outbox_monitor;
