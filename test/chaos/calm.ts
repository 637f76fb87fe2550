import { heldWithoutCause, type Operated, release } from './held.ts';
import { messagesIn } from './queue-calls.ts';
import type { Random } from './random.ts';
import { settled, type SettledOptions } from './settled.ts';

export interface Calm {
  /** Held when nothing moved any more, although nothing explains it. */
  readonly unexplained: readonly string[];
  readonly operated: Operated;
  /** In all queues, dead letters included. */
  readonly messagesLeft: number;
}

/** Waits until nothing moves, and has an operator decide about what is held then. */
export async function calmDown(options: SettledOptions, random: Random): Promise<Calm> {
  const { stage, standstillMs, interrupted, say } = options;
  await settled(options);
  const unexplained = await heldWithoutCause(stage);
  say('an operator decides about what is held');
  const operated = await release(stage, random, standstillMs.idle, interrupted);
  return { unexplained, operated, messagesLeft: await messagesIn(stage.queue) };
}

/** A run that was caught, or broke, is judged as it is. */
export const NO_CALM: Calm = {
  unexplained: [],
  operated: { skipped: new Set(), mended: 0, held: {} },
  messagesLeft: 0,
};
