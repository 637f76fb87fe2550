import { listConsumers, readHeldLag } from '../../../shared/inbox/index.ts';
import type { outboxCommands } from '../../../shared/operations/index.ts';
import {
  listBlocked,
  listOperatorActs,
  listParked,
  listPending,
  listReplays,
  readInstallation,
  readLag,
  redrive,
  restore,
  showAggregate,
  showParked,
  skip,
  unblock,
} from '../../../shared/outbox/index.ts';
import type { Answer, Runners, Tools } from './tools.ts';

export const outboxRunners: Runners<keyof typeof outboxCommands> = {
  status,
  'parked list': async ({ db }, args) => ({ ...(await listParked(db, args)) }),
  'parked show': async ({ db }, { position, data }) => ({
    ...(await showParked(db, position, { withData: data === true })),
  }),
  'pending list': async ({ db }, args) => ({ pending: await listPending(db, args) }),
  'blocked list': async ({ db }, { limit }) => ({ blocked: await listBlocked(db, limit) }),
  'aggregate show': async ({ db }, { aggregateType, aggregateId, limit }) => ({
    ...(await showAggregate(db, aggregateType, aggregateId, limit)),
  }),
  redrive: async ({ db }, { position }, reason) => ({ ...(await redrive(db, position, reason)) }),
  skip: async ({ db }, { position }, reason) => ({ ...(await skip(db, position, reason)) }),
  unblock: async ({ db }, aggregate, reason) => ({ unblocked: await unblock(db, aggregate, reason) }),
  restore: async ({ db }, { cluster }, reason) => ({ ...(await restore(db, cluster, reason)) }),
  'acts list': async ({ db }, args) => ({ acts: await listOperatorActs(db, args) }),
};

/** One look at everything that may be stuck. */
async function status({ db, inbox }: Tools): Promise<Answer> {
  const { destinations, relaySilenceSeconds } = await readLag(db);
  const { installation, relays } = await readInstallation(db);
  const held = inbox ? new Map((await readHeldLag(db)).map((lag) => [lag.consumer, lag])) : undefined;
  const consumers = inbox ? await listConsumers(db) : [];
  return {
    ...installation,
    relaySilenceSeconds,
    destinations,
    relays: relays.filter(({ ended }) => !ended),
    ...(inbox && { consumers: consumers.map((one) => ({ ...one, ...held?.get(one.consumer) })) }),
    replays: (await listReplays(db)).filter(({ state }) => state !== 'done' && state !== 'cancelled'),
  };
}
