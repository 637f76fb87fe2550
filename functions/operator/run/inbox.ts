import {
  acceptGap,
  endReplay,
  listHeld,
  listHeldCalls,
  recordHeldCall,
  releaseHeld,
  repeatHeldCall,
  resetConsumer,
  retryHeld,
  showHeld,
  skipHeld,
} from '../../../shared/inbox/index.ts';
import type { inboxCommands } from '../../../shared/operations/index.ts';
import { masked } from './mask.ts';
import type { Answer, Runners } from './tools.ts';

/** What the consumer acts upon, at its next batch or the next start of its schedule. */
const DECIDED: Answer = { decided: true, next: 'the consumer acts at its next batch, or within five minutes' };

export const inboxRunners: Runners<keyof typeof inboxCommands> = {
  'held list': async ({ db }, { heldAs, ...args }) => ({
    ...(await listHeld(db, { ...args, ...(heldAs !== undefined && { reason: heldAs }) })),
  }),
  'held show': async ({ db }, { consumer, eventId, data }) => {
    const shown = await showHeld(db, consumer, eventId, { withBody: data === true });
    const body = shown.body !== null && UNREAD.has(shown.reason) ? masked(shown.body) : shown.body;
    return { ...shown, body };
  },
  'held retry': async ({ db }, { consumer, eventId }, reason) => {
    await retryHeld(db, consumer, eventId, reason);
    return DECIDED;
  },
  'held skip': async ({ db }, { consumer, eventId }, reason) => ({
    done: await skipHeld(db, consumer, eventId, reason),
  }),
  'held release': async ({ db }, { consumer, eventId }, reason) => {
    await releaseHeld(db, consumer, eventId, reason);
    return DECIDED;
  },
  'accept-gap': async ({ db }, aggregate, reason) => ({ position: await acceptGap(db, aggregate, reason) }),
  'calls list': async ({ db }, { limit }) => ({ calls: await listHeldCalls(db, limit) }),
  'calls record': async ({ db }, { answer, ...held }, reason) => {
    await recordHeldCall(db, held, answer, reason);
    return DECIDED;
  },
  'calls repeat': async ({ db }, held, reason) => {
    await repeatHeldCall(db, held, reason);
    return DECIDED;
  },
  'consumer reset': async ({ db }, { consumer, replay, ...scope }, reason) => ({
    ...(await resetConsumer(db, consumer, scope, replay, reason)),
  }),
  'consumer end-replay': async ({ db }, { consumer }, reason) => ({
    released: await endReplay(db, consumer, reason),
  }),
};

/** Held because the consumer could not read them against a schema: nobody vouches that personal data in them is sealed. */
const UNREAD: ReadonlySet<string> = new Set(['malformed', 'unknown-type', 'unknown-version']);
