import { join } from 'node:path';
import type { Order, Target } from './arguments.ts';

/** A program to run, by Node.js, in the repository's root. */
export interface Step {
  readonly does: string;
  readonly args: readonly string[];
}

export interface DeployPlan {
  /** Templates and bundles, in a directory of the stage. Needs no account. */
  readonly build: readonly Step[];
  /** What would change in the account. */
  readonly show: Step;
  /** Deploys what was built and shown, and nothing else. */
  readonly deploy: Step;
}

const CDK = join('node_modules', 'aws-cdk', 'bin', 'cdk');

/** @returns the command lines of `npm run deploy` */
export function deployPlan(order: Order, { stage, account, region }: Target): DeployPlan {
  const assembly = join('cdk.out', stage);
  const built = ['--app', assembly, ...profileOf(order)];
  // Somebody was asked already, or said --yes. Two answers to the same question would be a list, which cdk does not take.
  const approval = order.rest.some((word) => word.split('=')[0] === '--require-approval')
    ? []
    : ['--require-approval', 'never'];
  return {
    build: [
      { does: 'makes the validators of the event schemas', args: [join('scripts', 'generate.ts')] },
      {
        does: 'makes templates and bundles',
        args: [
          CDK,
          'synth',
          '--quiet',
          '--output',
          assembly,
          ...contextOf({ ...order.context, stage, account, region, validate: 'cloudformation' }),
        ],
      },
    ],
    show: { does: 'shows what would change', args: [CDK, 'diff', ...built] },
    deploy: { does: 'deploys', args: [CDK, 'deploy', '--all', ...built, ...approval, ...order.rest] },
  };
}

/** @returns the command line of `npm run destroy`: stacks are found by their names, nothing is built */
export function destroyStep(order: Order, { stage, account, region }: Target): Step {
  const context = contextOf({ ...order.context, stage, account, region });
  return {
    does: 'deletes both stacks',
    args: [CDK, 'destroy', '--all', '--force', ...context, ...profileOf(order), ...order.rest],
  };
}

function contextOf(values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

function profileOf({ profile }: Order): string[] {
  return profile === undefined ? [] : ['--profile', profile];
}

/** As a shell takes it. */
export function commandLine({ args }: Step): string {
  return ['node', ...args]
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`))
    .join(' ');
}
