import { inject } from 'vitest';
import type { LocalStack } from './localstack.ts';

/** The run's LocalStack, when it has started. @throws Error with what went wrong on the way there */
export async function foundLocalStack(): Promise<LocalStack> {
  const response = await fetch(inject('localstack'));
  if (!response.ok) throw new Error(`LocalStack did not start: ${await response.text()}`);
  return (await response.json()) as LocalStack;
}
