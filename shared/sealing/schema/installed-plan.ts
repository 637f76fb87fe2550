import { sealedPattern } from '../sealed-text.ts';
import type { PlanNode, SealingPlan } from './plan.ts';

/** A plan as `outbox.event_type` keeps it: nodes by number, the root first, children by number or null. */
export interface InstalledPlan {
  readonly nodes: readonly InstalledNode[];
}

export type InstalledNode =
  /** What the text at a marked place must match. */
  | { readonly sealed: string }
  | {
      readonly properties: Readonly<Record<string, number | null>>;
      readonly patterns: readonly string[];
      readonly others: readonly (number | null)[];
      readonly prefix: readonly (number | null)[];
      readonly items: number | null;
    };

/** What SQL `outbox.clear_text` goes by. */
export function installedPlan(plan: SealingPlan): InstalledPlan {
  return { nodes: plan.nodes.map(installedNode) };
}

function installedNode(node: PlanNode): InstalledNode {
  if (node.mark !== null) return { sealed: sealedPattern(node.mark.class) };
  return {
    properties: Object.fromEntries([...node.properties].map(([name, child]) => [name, numberOf(child)])),
    patterns: node.sources,
    others: node.others.map(numberOf),
    prefix: node.prefix.map(numberOf),
    items: numberOf(node.items),
  };
}

function numberOf(node: PlanNode | null): number | null {
  return node?.number ?? null;
}
