import { SealedOutboxError } from '../../shared/errors/index.ts';
import { type Order, orderOf, type Target, targetOf } from './arguments.ts';
import { DEPLOY_HELP, DESTROY_HELP } from './help.ts';
import { commandLine, deployPlan, destroyStep, type Step } from './plan.ts';
import { removalOf, removalText } from './removal.ts';

/** What a command touches. */
export interface World {
  /** The `context` of cdk.json. */
  readonly context: Readonly<Record<string, unknown>>;
  readonly print: (text: string) => void;
  readonly complain: (text: string) => void;
  /** Null where nobody can answer. */
  readonly ask: ((question: string) => Promise<string>) | null;
  /** @returns the exit code of the step's program */
  readonly run: (step: Step) => Promise<number>;
}

const DONE = 0;
const FAILED = 1;
const USAGE = 2;

/** `npm run deploy`. @returns the process's exit code */
export async function deploy(words: readonly string[], world: World): Promise<number> {
  return withTarget(words, world, DEPLOY_HELP, async (order, target) => {
    const plan = deployPlan(order, target);
    const steps = order.diff ? [...plan.build, plan.show] : [...plan.build, plan.show, plan.deploy];
    if (order.dryRun) return printed(steps, world);
    if (!order.diff && !order.yes && world.ask === null) {
      world.complain(
        'Nobody can be asked here: look with --diff, then deploy with --yes. Nothing was built or changed.',
      );
      return USAGE;
    }
    for (const step of steps) {
      if (step === plan.deploy && !order.yes) {
        const answer = await world.ask?.(
          `Deploy this to ${target.stage} in account ${target.account}, ${target.region}? [y/N] `,
        );
        if (!/^y(es)?$/i.test(answer?.trim() ?? '')) {
          world.complain('Not deployed: nothing was changed.');
          return FAILED;
        }
      }
      const code = await world.run(step);
      if (code === 0) continue;
      const after = code > INTERRUPTED ? AFTER_AN_INTERRUPTION : AFTER_A_FAILURE;
      world.complain(`${step.does}: ended with ${code}. ${step === plan.deploy ? after : 'Nothing was deployed.'}`);
      return FAILED;
    }
    return DONE;
  });
}

const AFTER_A_FAILURE =
  'CloudFormation rolls back what it had begun, and the old functions go on with the newer schema; docs/deploy.md#when-a-deployment-fails tells what to look at.';

/** Above it is what a signal ended. */
const INTERRUPTED = 128;

const AFTER_AN_INTERRUPTION =
  "Nobody waits any more, and CloudFormation goes on with what it had begun: the stacks' events tell how it ends. The command can be run again then.";

/** `npm run destroy`. @returns the process's exit code */
export async function destroy(words: readonly string[], world: World): Promise<number> {
  return withTarget(
    // Nothing is sent to a mail provider any more, but the stacks ask for one.
    words.some((word) => word.startsWith('mailProvider='))
      ? words
      : [...words, '-c', 'mailProvider=https://none.invalid'],
    world,
    DESTROY_HELP,
    async (order, target) => {
      const removal = removalOf(target);
      const step = destroyStep(order, target);
      if (order.dryRun && removal.byCommand) return printed([step], world);
      world.print(removalText(removal, target));
      if (!removal.byCommand) {
        world.complain(
          `\nStage ${target.stage} keeps its data: this command deletes nothing of it. The list above is what to do by hand.`,
        );
        return FAILED;
      }
      if (!order.yes) {
        const answer = await world.ask?.(`\nDelete it? Type ${target.stage}: `);
        if (answer?.trim() !== target.stage) {
          world.complain('Not confirmed: nothing was deleted.');
          return FAILED;
        }
      }
      const code = await world.run(step);
      if (code === 0) return DONE;
      world.complain(
        `${step.does}: ended with ${code}. What is left stands in the stack's events; the command can be run again.`,
      );
      return FAILED;
    },
  );
}

function printed(steps: readonly Step[], world: World): number {
  for (const step of steps) world.print(`# ${step.does}\n${commandLine(step)}`);
  return DONE;
}

async function withTarget(
  words: readonly string[],
  world: World,
  help: string,
  go: (order: Order, target: Target) => Promise<number>,
): Promise<number> {
  let order: Order;
  let target: Target;
  try {
    order = orderOf(words);
    if (order.help) {
      world.print(help);
      return DONE;
    }
    target = targetOf(order, world.context);
  } catch (error) {
    if (!(error instanceof SealedOutboxError)) throw error;
    world.complain(`${error.message} (${error.code})\n--help tells how.`);
    return USAGE;
  }
  return go(order, target);
}
