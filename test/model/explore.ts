import { actionsOf } from './actions.ts';
import { expectPublishedArrived, isAtRest } from './database.ts';
import type { Rules } from './rules.ts';
import { copyOf, decode, encode, type World } from './world.ts';

export interface Explored {
  readonly states: number;
  readonly steps: number;
  /** What went wrong, and how it came to that; undefined: nothing can. */
  readonly broken: { readonly reason: string; readonly trace: readonly string[] } | undefined;
}

/**
 * Visits every state that can be reached, breadth first, so that the first counterexample is a shortest one. Two kinds of faults are
 * looked for: a step that breaks an invariant, and a state from which the certain steps alone (no fault, no operator) lead nowhere where
 * everything is out. The second is what "lost" means: nobody will ever send it.
 */
export function explore(start: World, rules: Rules): Explored {
  const texts = [encode(start)];
  const seen = new Map([[texts[0]!, 0]]);
  const from = [-1];
  const by = [''];
  /** Certain steps, as pairs of from and to. */
  const certain: number[] = [];
  const atRest: number[] = [];
  let steps = 0;

  const traceTo = (state: number): string[] => {
    const trace: string[] = [];
    for (let at = state; from[at] !== -1; at = from[at]!) trace.unshift(by[at]!);
    return trace;
  };

  for (let at = 0; at < texts.length; at += 1) {
    const text = texts[at]!;
    const world = decode(text);
    if (isAtRest(world)) atRest.push(at);
    for (const action of actionsOf(world, rules)) {
      steps += 1;
      const next = copyOf(world, action.relay);
      try {
        action.apply(next);
        expectPublishedArrived(next);
      } catch (error) {
        const broken = { reason: (error as Error).message, trace: [...traceTo(at), action.name] };
        return { states: texts.length, steps, broken };
      }
      const reached = encode(next);
      let to = seen.get(reached);
      if (to === undefined) {
        to = texts.length;
        seen.set(reached, to);
        texts.push(reached);
        from.push(at);
        by.push(action.name);
      }
      if (action.certain) certain.push(at, to);
    }
  }
  const stuck = firstStuck(texts.length, certain, atRest);
  const broken =
    stuck === -1
      ? undefined
      : {
          reason: 'an event is lost: nobody will ever send it',
          trace: [...traceTo(stuck), whatIsLeft(decode(texts[stuck]!))],
        };
  return { states: texts.length, steps, broken };
}

/** The first state from which certain steps do not lead to rest; -1: there is none. */
function firstStuck(states: number, certain: readonly number[], atRest: readonly number[]): number {
  // Predecessors, as linked lists in arrays: there are millions.
  const first = new Int32Array(states).fill(-1);
  const next = new Int32Array(certain.length / 2).fill(-1);
  for (let edge = 0; edge < next.length; edge += 1) {
    const to = certain[edge * 2 + 1]!;
    next[edge] = first[to]!;
    first[to] = edge;
  }
  const good = new Uint8Array(states);
  const todo = [...atRest];
  for (const state of todo) good[state] = 1;
  for (let state = todo.pop(); state !== undefined; state = todo.pop()) {
    for (let edge = first[state]!; edge !== -1; edge = next[edge]!) {
      const before = certain[edge * 2]!;
      if (good[before] === 1) continue;
      good[before] = 1;
      todo.push(before);
    }
  }
  return good.indexOf(0);
}

function whatIsLeft({ rows }: World): string {
  const left = rows.filter(({ state }) => state !== 'published' && state !== 'set_aside');
  return `left: ${left.map(({ aggregate, sequence, state }) => `${aggregate}#${sequence} ${state}`).join(', ')}`;
}
