import { randomUUID } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { v7 } from 'uuid';
import { afterEach, expect, it, vi } from 'vitest';
import { operate } from '../../functions/operator/operate.ts';
import { catalogue } from '../../functions/sample/catalogue/index.ts';
import { namingHandlers } from '../../functions/sample/ledger/handlers.ts';
import { notificationHandlers } from '../../functions/sample/notifications/handlers.ts';
import { mailClient } from '../../functions/sample/notifications/mail-client.ts';
import { transaction } from '../../shared/database/index.ts';
import { eventConsumer, type Handlers } from '../../shared/inbox/index.ts';
import { type Answer, recordingPublisher, refused, type RecordingPublisher } from '../support/outbox.ts';
import { createOutbox, type Message, outboxWalks, runRelay } from '../../shared/outbox/index.ts';
import {
  CLERK,
  dumpTables,
  leaks,
  listenToOutput,
  logInto,
  metricsInto,
  newSinks,
  type Sinks,
  TALKATIVE,
  untilLogged,
} from '../support/canary.ts';
import { requestEverything } from '../support/canary-requests.ts';
import { deadLetterQueues } from '../support/dead-letters.ts';
import { leaksIn, textOf } from '../support/leaks.ts';
import { providerPerTest } from '../support/mail-delivery.ts';
import { letAge, walkAll } from '../support/retention.ts';
import { installSample, invoiceOrder, PERSONAL, sampleErasureLog, sampleKeyring } from '../support/sample.ts';
import { type SecondCluster, secondCluster } from '../support/second-cluster.ts';
import { recordSpans } from '../support/spans.ts';
import { drainOf, fifoRecord, invoke, standardRecord } from '../support/sqs-batch.ts';
import { sampleApi } from './sample/api-harness.ts';

const provider = providerPerTest();
afterEach(() => void vi.restoreAllMocks());
const spans = recordSpans();
const VALUES = Object.values(PERSONAL);

/** Everything that the sample does, well and badly, with one customer whose data is marked. */
async function goThroughEverything(cluster: SecondCluster, sinks: Sinks): Promise<void> {
  const owner = cluster.pool('sealed_migrator');
  await installSample(owner);
  const pool = cluster.pool('sealed_api');
  const keyring = sampleKeyring(pool);
  const more = { log: logInto(sinks), metrics: metricsInto(sinks) };
  const options = { callers: { seeClearValues: [CLERK] }, log: more.log };
  const api = sampleApi(pool, { ...options, keyring });
  const customerId = v7();
  const order = invoiceOrder(customerId);
  const keep = async (reply: Promise<unknown>): Promise<void> => void sinks['API answers'].push(textOf(await reply));
  const fails = async (work: Promise<unknown>): Promise<void> => {
    const error = await work.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(Error);
    sinks['stack traces'].push(textOf(error));
  };

  await requestEverything({ cluster, sinks, api, options, order });

  // Appends that fail.
  const outbox = createOutbox({ catalogue, keyring });
  const subject = { kind: 'customer', id: customerId };
  const writer = await outbox.prepare({ subjects: [subject], types: ['invoice.issued'] });
  const event = (data: object) =>
    ({ type: 'invoice.issued', aggregate: { type: 'invoice', id: randomUUID() }, data }) as never;
  const data = { invoiceId: randomUUID(), totalMinor: 3000, ...order };
  await fails(transaction(pool, (tx) => writer.append(tx, [event({ ...data, dueOn: PERSONAL.note })])));
  await fails(
    transaction(pool, (tx) =>
      writer.append(tx, [event({ ...data, customer: { ...order.customer, iban: PERSONAL.email } })]),
    ),
  );
  await fails(transaction(pool, (tx) => writer.append(tx, [event({ ...data, customerId: v7() })])));
  await fails(transaction(pool, (tx) => outbox.append(tx, [event(data)])));
  await fails(
    transaction(pool, (tx) => writer.append(tx, [event({ ...data, note: 'x'.repeat(2_001) + PERSONAL.note })])),
  );
  await owner.query("delete from outbox.route where type = 'invoice.issued'");
  await owner.query("delete from outbox.event_type where type = 'invoice.issued'");
  await fails(transaction(pool, (tx) => writer.append(tx, [event(data)])));
  await installSample(owner);

  // Relayed: refused with the message in the reason, thrown with it, parked, sent.
  const publisher = (answer?: Answer): RecordingPublisher => recordingPublisher(answer);
  const reasons =
    (code: string): Answer =>
    (message: Message) =>
      ({ ...refused(code), ok: false, reason: message.body }) as never;
  const sent = async (publishers: Record<string, RecordingPublisher>): Promise<void> => {
    await owner.query("update outbox.delivery set due_at = '-infinity' where state = 'pending'");
    await runRelay({
      connect: () => cluster.connect('sealed_relay'),
      publishers,
      log: more.log,
      slot: 'canary',
      mode: 'drain',
      policy: { attempts: 12, baseMs: 60_000, capMs: 300_000 },
      random: () => 1,
    });
    for (const { calls } of Object.values(publishers)) sinks['queues and dead letters'].push(textOf(calls));
  };
  await sent({ ledger: publisher(reasons('InternalError')), analytics: publisher(), notifications: publisher() });
  await sent({
    ledger: publisher((message) => Promise.reject(new Error(message.body))),
    analytics: publisher(),
    notifications: publisher(),
  });
  await sent({
    ledger: publisher(reasons('InvalidMessageContents')),
    analytics: publisher(),
    notifications: publisher(),
  });

  // What an operator sees of it, and sends again.
  const dead = await deadLetterQueues();
  const tools = {
    db: cluster.pool('sealed_operator'),
    sqs: dead.client,
    queues: { ledger: dead.pair },
    inbox: true,
    vault: true,
    budgetMs: 5_000,
  };
  const ordered = async (command: string, args: object = {}, reason?: string) => {
    const request = { command, arguments: args, by: 'canary', ...(reason !== undefined && { reason }) };
    const answer = await operate(request, { tools, requestId: randomUUID(), log: more.log });
    sinks["operators' answers"].push(textOf(answer));
    return answer;
  };
  const listed = await ordered('parked list');
  const { parked: all } = (listed.ok ? listed.result : {}) as { parked?: { position: string }[] };
  const [parked] = all ?? [];
  expect(parked).toBeDefined();
  await ordered('parked show', { position: parked!.position, data: true });
  await ordered('redrive', { position: parked!.position }, 'canary');
  const [ledgerQueue, mailQueue] = [publisher(), publisher()];
  await sent({ ledger: ledgerQueue, analytics: publisher(), notifications: mailQueue });
  expect(ledgerQueue.accepted.length).toBeGreaterThan(0);

  // Consumed: thrown with what was opened, held, given up, done.
  const { rows } = await owner.query(
    "select id, aggregate_id from outbox.event where type = 'invoice.issued' order by id limit 1",
  );
  const own = cluster.pool('sealed_notifications');
  const ownKeyring = sampleKeyring(own);
  const consumer = (name: string, handlers: Handlers<typeof catalogue>) =>
    eventConsumer({
      name,
      mode: 'any',
      catalogue,
      handlers,
      keyring: ownKeyring,
      opens: ['contact'],
      pool: own,
      attempts: 2,
      ...more,
    });
  const failing = consumer('failing', {
    'invoice.issued': async (received) => {
      const opened = textOf(received.data);
      expect(leaksIn({ opened: [opened] }, [PERSONAL.name])).not.toEqual([]);
      throw Object.assign(new Error(opened, { cause: new Error(opened) }), { code: PERSONAL.email, detail: opened });
    },
  });
  const throwing = consumer('throwing', {
    'invoice.issued': async (received) => {
      // oxlint-disable-next-line typescript/only-throw-error -- as handlers of others may
      throw textOf(received.data);
    },
  });
  const { body } = ledgerQueue.accepted[0]!;
  for (const handler of [failing, throwing]) {
    for (let n = 0; n < 3; n += 1) await invoke(handler, [standardRecord(body)]);
    await drainOf(handler);
  }
  await ordered('held list');
  await ordered('held show', { consumer: 'failing', eventId: rows[0].id, data: true });
  const mails = consumer('notifications', notificationHandlers(mailClient(provider.current.url), ownKeyring));
  provider.current.plan('refuse');
  await invoke(mails, [standardRecord(body)]);
  for (let n = 0; n < 2; n += 1) await invoke(mails, [standardRecord(body)]);
  expect(provider.current.mails().map(({ to }) => to)).toContain(PERSONAL.email);
  await ordered('calls list');
  const ledgerPool = cluster.pool('sealed_ledger');
  const ledger = eventConsumer({
    name: 'ledger',
    mode: 'strict',
    startingPoint: 'beginning',
    destination: 'ledger',
    catalogue,
    handlers: namingHandlers(sampleKeyring(ledgerPool)),
    pool: ledgerPool,
    ...more,
  });
  await invoke(ledger, [fifoRecord(rows[0].aggregate_id, body)]);

  // Dead letters that are redriven; held events that are tried again; a replay into a consumer that was reset, and throws again.
  await dead.put(rows[0].aggregate_id, body);
  await ordered('dead-letters list');
  expect(await ordered('dead-letters redrive', { queue: 'ledger' }, 'canary')).toMatchObject({ result: { moved: 1 } });
  sinks['queues and dead letters'].push(textOf(await dead.received()));
  await ordered('held retry', { consumer: 'failing', eventId: rows[0].id }, 'canary');
  await drainOf(failing);
  const replay = await ordered('replay start', { destination: 'ledger', aggregateType: 'invoice' }, 'canary');
  const { number } = (replay.ok ? replay.result : {}) as { number?: number };
  expect(await ordered('consumer reset', { consumer: 'failing', replay: number }, 'canary')).toMatchObject({
    ok: true,
  });
  const replayed = publisher();
  await sent({ ledger: replayed, analytics: publisher(), notifications: publisher() });
  expect(replayed.accepted.length).toBeGreaterThan(0);
  for (const message of replayed.accepted) await invoke(failing, [standardRecord(message.body)]);
  await ordered('consumer end-replay', { consumer: 'failing' }, 'canary');

  // Erased, archived.
  expect((await api.call('DELETE', `/customers/${customerId}`)).status).toBe(200);
  await keep(api.call('DELETE', `/customers/${customerId}`));
  await keep(sampleApi(pool, options).post('/invoices', order));
  const persons = publisher();
  await sent({ ledger: publisher(), analytics: publisher(), notifications: persons });
  for (const message of persons.accepted) await invoke(mails, [standardRecord(message.body)]);
  for (const [name, content] of sampleErasureLog.files)
    sinks['log of erasures'].push(name, Buffer.from(content).toString());
  await dumpTables(cluster, sinks);
  await letAge(owner, 30);
  const archive = {
    put: async (name: string, content: Uint8Array) => void sinks.archive.push(name, gunzipSync(content).toString()),
    async *list() {},
    read: () => Promise.reject(new Error('nothing is read')),
  };
  const janitor = cluster.pool('sealed_janitor');
  await walkAll(outboxWalks(janitor, { keepSeconds: 864_000, archive, metrics: more.metrics, sweepSeconds: 0 }), more);
}

it('a personal value stands nowhere on any path; and wherever it is let out on purpose, the search finds it', async () => {
  const sinks = newSinks();
  const cluster = await secondCluster({ settings: TALKATIVE, onLog: (line) => void sinks['database log'].push(line) });
  listenToOutput(sinks);
  await goThroughEverything(cluster, sinks);
  sinks.traces.push(textOf(spans));
  await untilLogged(cluster, sinks);
  const all: Readonly<Record<string, readonly string[]>> = sinks;
  for (const [sink, texts] of Object.entries(all))
    expect(texts.join('').length, `${sink} is not empty`).toBeGreaterThan(20);
  expect(leaksIn(all, VALUES)).toEqual([]);

  for (const [sink, leak] of Object.entries(leaks(cluster, sinks, spans))) {
    await leak();
    expect(leaksIn({ [sink]: all[sink]! }, VALUES), `a leak into ${sink} is found`).not.toEqual([]);
  }
}, 120_000);
