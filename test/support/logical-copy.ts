import type { Queryable } from '../../shared/database/index.ts';

/** In an order that foreign keys allow; leases and relays are of no use in a copy, but a real one has them. */
const TABLES = [
  'installation',
  'event_type',
  'destination',
  'route',
  'stream',
  'event',
  'delivery',
  'partition',
  'relay',
  'audit',
  'replay',
  'low_water',
  'walk',
];

export type LogicalCopy = ReadonlyMap<string, string>;

/** The rows of the outbox as text, in one snapshot, as pg_dump would write them: ids of transactions included. */
export async function copyOutbox(owner: Queryable): Promise<LogicalCopy> {
  const { rows } = await owner.query(
    TABLES.map(
      (table) => `select '${table}' as name, coalesce(json_agg(t), '[]')::text as rows from outbox.${table} t`,
    ).join(' union all '),
  );
  return new Map(rows.map(({ name, rows: text }) => [name, text]));
}

/** Puts a copy into a freshly migrated database, as pg_restore would. */
export async function pasteOutbox(owner: Queryable, copy: LogicalCopy): Promise<void> {
  await owner.query(`truncate ${TABLES.map((table) => `outbox.${table}`).join(', ')}`);
  for (const table of TABLES) {
    const { rows } = await owner.query(
      `select string_agg(quote_ident(attname), ', ') as columns
         from pg_attribute
        where attrelid = 'outbox.${table}'::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
    );
    const { columns } = rows[0];
    await owner.query(
      `insert into outbox.${table} (${columns}) overriding system value
       select ${columns} from json_populate_recordset(null::outbox.${table}, $1)`,
      [copy.get(table)],
    );
  }
  await owner.query(
    `select setval(pg_get_serial_sequence('outbox.delivery', 'position'), (select coalesce(max(position), 0) + 1 from outbox.delivery)),
            setval(pg_get_serial_sequence('outbox.audit', 'id'), (select coalesce(max(id), 0) + 1 from outbox.audit)),
            setval(pg_get_serial_sequence('outbox.destination', 'number'), (select coalesce(max(number), 0) + 1 from outbox.destination))`,
  );
}

/** Uses up ids of transactions, so that those written from now on lie in the future of a younger cluster. */
export async function ageCluster(owner: Queryable, transactions: number): Promise<void> {
  await owner.query(
    `do $$
     begin
       create temporary table aged (n int) on commit drop;
       for i in 1 .. ${transactions} loop
         begin
           insert into aged values (i);
         exception when division_by_zero then
           null; -- a block with a handler is a transaction within the transaction, with an id of its own
         end;
       end loop;
     end
     $$`,
  );
}
