import { Stack } from 'aws-cdk-lib';
import type { CfnFunction, Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';

/** What Lambda takes of all variables of a function together, names and values. Bytes. */
const MOST = 4096;

/** How many of the largest variables are named: what can be made smaller is among them. */
const NAMED = 3;

/** @returns what is wrong when the environment of `fn` is more than Lambda takes, by as much of it as is known here: a deployment would fail at it */
export function environmentComplaints(fn: LambdaFunction): string[] {
  const { environment } = fn.node.defaultChild as CfnFunction;
  const { variables = {} } = (Stack.of(fn).resolve(environment) ?? {}) as { variables?: Record<string, unknown> };
  const sizes = Object.entries(variables).map(([name, value]) => [name, name.length + knownBytes(value)] as const);
  const total = sizes.reduce((sum, [, size]) => sum + size, 0);
  if (total <= MOST) return [];
  const largest = sizes.toSorted(([, a], [, b]) => b - a).slice(0, NAMED);
  return [
    `${fn.node.path}: its environment has ${total} bytes, and Lambda takes ${MOST}. Largest: ` +
      `${largest.map(([name, size]) => `${name} (${size})`).join(', ')}. Declare less in one function, or shorter names.`,
  ];
}

/** Of text, and of the text in a join; what only CloudFormation knows counts as nothing. */
function knownBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  const join = (value as { 'Fn::Join'?: readonly [string, readonly unknown[]] } | null)?.['Fn::Join'];
  return join === undefined ? 0 : join[1].reduce<number>((sum, part) => sum + knownBytes(part), 0);
}
