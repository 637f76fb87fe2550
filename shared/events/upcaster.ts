import { CatalogueError } from './catalogue-error.ts';
import type { DataOf, EventSchema } from './schema.ts';

/**
 * What a consumer does with an event that is older than the oldest upcaster of its type:
 * - `return`: it is not applied; the consumer holds it until there is an upcaster and an operator has it tried again;
 * - `ignore`: it is acknowledged without effect and counted.
 */
export type Older = 'return' | 'ignore';

/** Makes data of one version into data of the next. `upcaster()` makes one. */
export interface Upcaster {
  readonly from: EventSchema;
  readonly to: EventSchema;
  readonly apply: (data: unknown) => unknown;
}

/**
 * A step from one version of a type to the next, for `upcast` in its definition. The schemas come first and in a call of
 * their own, so that TypeScript knows both types when it reads the function.
 *
 * ```ts
 * upcast: { 1: upcaster(invoiceIssued1, invoiceIssued2)((data) => ({ ...data, currency: 'EUR' })) },
 * ```
 *
 * The function is pure: it gets valid data of `from`, answers with valid data of `to`, and knows nothing else. No clock, no
 * look-up: the same event must mean the same whenever it is read.
 */
export function upcaster<const From extends EventSchema, const To extends EventSchema>(
  from: From,
  to: To,
): (apply: (data: DataOf<From>) => DataOf<To>) => Upcaster {
  return (apply) => ({ from, to, apply: apply as (data: unknown) => unknown });
}

/** What of a type's definition concerns its versions. */
export interface TypeVersions {
  readonly versions: { readonly [version: number]: EventSchema };
  readonly upcast?: { readonly [from: number]: Upcaster };
  readonly older?: Older;
}

/** The oldest version that upcasters lead up to the newest; the newest itself where there are none. */
export function oldestReadable(type: TypeVersions): number {
  const steps = Object.keys(type.upcast ?? {}).map(Number);
  return Math.min(...steps, Object.keys(type.versions).length);
}

/**
 * @throws CatalogueError (`CATALOGUE_UPCAST`) where upcasters do not form one chain that ends at the newest version, or one
 * was made for other schemas than those it stands between. `where` names the type.
 */
export function checkUpcasters(where: string, type: TypeVersions): void {
  const newest = Object.keys(type.versions).length;
  const fault = (text: string): CatalogueError => new CatalogueError('CATALOGUE_UPCAST', `${where}: ${text}`);
  if (type.older !== undefined && type.older !== 'return' && type.older !== 'ignore') {
    throw fault("older must be 'return' or 'ignore'.");
  }
  const { upcast = {} } = type;
  for (const key of Object.keys(upcast)) {
    const from = Number(key);
    if (String(from) === key && from === newest) {
      throw fault(`version ${newest} is the newest and has an upcaster. Add version ${newest + 1} or remove it.`);
    }
    if (type.versions[from] === undefined || String(from) !== key) {
      throw fault(`upcast names version ${JSON.stringify(key)}, which does not exist.`);
    }
  }
  for (let from = oldestReadable(type); from < newest; from += 1) {
    const step = upcast[from];
    if (step === undefined) {
      throw fault(`the upcaster from version ${from} to ${from + 1} is missing, and older ones lead to it.`);
    }
    if (step.from !== type.versions[from] || step.to !== type.versions[from + 1]) {
      throw fault(
        `the upcaster from version ${from} to ${from + 1} was made for other schemas. ` +
          'Give upcaster() the very objects that stand in versions.',
      );
    }
  }
}
