import { SealingError } from './errors.ts';
import type { PlannedMark } from './schema/mark.ts';
import { childOf, itemOf, type PlanNode, type SealingPlan } from './schema/plan.ts';

/** Data that reaches deeper holds more than a schema describes; far from what ends the stack. */
const MAX_DEPTH = 128;

/** A value at a marked place. */
export interface MarkedValue {
  readonly value: unknown;
  readonly mark: PlannedMark;
  /** JSON Pointer to it in the data. */
  readonly pointer: string;
  /** From the data as a whole down to what holds the value. */
  readonly ancestors: readonly unknown[];
}

/**
 * Data with another value at each marked place. What is null or absent there stays so. What did not change is shared with the
 * original, which is left as it is.
 */
export function replaceMarked(plan: SealingPlan, data: unknown, replace: (marked: MarkedValue) => unknown): unknown {
  const ancestors: unknown[] = [];

  const visit = (node: PlanNode, value: unknown, pointer: string): unknown => {
    if (node.mark !== null) {
      return value === null || value === undefined ? value : replace({ value, mark: node.mark, pointer, ancestors });
    }
    if (typeof value !== 'object' || value === null) return value;
    if (ancestors.length === MAX_DEPTH) {
      throw new SealingError('SEALING_LIMIT', `Data with marks nests at most ${MAX_DEPTH} levels deep.`);
    }
    ancestors.push(value);
    const result = Array.isArray(value) ? visitArray(node, value, pointer) : visitObject(node, value, pointer);
    ancestors.pop();
    return result;
  };

  const visitArray = (node: PlanNode, array: readonly unknown[], pointer: string): readonly unknown[] => {
    let copy: unknown[] | null = null;
    for (const [index, item] of array.entries()) {
      const child = itemOf(node, index);
      if (child === null) continue;
      const replaced = visit(child, item, `${pointer}/${index}`);
      if (replaced === item) continue;
      copy ??= [...array];
      copy[index] = replaced;
    }
    return copy ?? array;
  };

  const visitObject = (node: PlanNode, object: object, pointer: string): object => {
    let copy: object | null = null;
    for (const [name, item] of Object.entries(object)) {
      const child = childOf(node, name);
      if (child === null) continue;
      const replaced = visit(child, item, `${pointer}/${escapeStep(name)}`);
      if (replaced === item) continue;
      copy ??= { ...object };
      // Not an assignment: a field may be called `__proto__`.
      Object.defineProperty(copy, name, { value: replaced, enumerable: true, writable: true, configurable: true });
    }
    return copy ?? object;
  };

  return visit(plan.root, data, '');
}

function escapeStep(name: string): string {
  return name.includes('~') || name.includes('/') ? name.replaceAll('~', '~0').replaceAll('/', '~1') : name;
}
