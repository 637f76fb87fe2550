import { heldWithoutCause, type Operated, release } from './held.ts';
import { messagesIn } from './queue-calls.ts';
import type { Random } from './random.ts';
import { settled, type SettledOptions } from './settled.ts';

export interface Calm {
  /** What nobody worked on any more although it was not done, in words. */
  readonly stuck: readonly string[];
  /** Held when nothing moved any more, although nothing explains it. */
  readonly unexplained: readonly string[];
  readonly operated: Operated;
  /** In all queues, dead letters included. */
  readonly messagesLeft: number;
}

/** Waits until nothing moves, and has an operator decide about what is held then. */
export async function calmDown(options: SettledOptions, random: Random): Promise<Calm> {
  const { stage, standstillMs, interrupted, say } = options;
  const left = await settled(options);
  if (left !== undefined) say(`nothing moves any more: ${left}`);
  const unexplained = await heldWithoutCause(stage);
  say('an operator decides about what is held');
  const operated = await release(stage, random, standstillMs.idle, interrupted);
  return {
    stuck: left === undefined ? [] : [left],
    unexplained,
    operated,
    messagesLeft: await messagesIn(stage.queue),
  };
}

/** A run that was caught, or broke, is judged as it is. */
export const NO_CALM: Calm = {
  stuck: [],
  unexplained: [],
  operated: { skipped: new Set(), mended: 0, held: {} },
  messagesLeft: 0,
};
