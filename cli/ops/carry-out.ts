import { type CommandName, commands, type OperationAnswer } from '../../shared/operations/index.ts';
import type { Invoke } from './invoke.ts';
import type { Order } from './parse.ts';
import { rendered } from './render.ts';
import { CALL } from '../cloud/call.ts';

/** What a command line does with the world. */
export interface Terminal {
  /** The answer: standard output. */
  print(text: string): void;
  /** What else there is to say: standard error. */
  note(text: string): void;
  /** Null where nobody can be asked. */
  readonly ask: ((question: string) => Promise<string>) | null;
  wait(milliseconds: number): Promise<void>;
}

/** As `npm run ops -- --help` lists them. */
export const EXIT = { done: 0, refused: 1, usage: 2, failed: 3 } as const;

const WATCH_MS = 2_000;
/** States in which a replay changes no more. */
const ENDED = new Set<unknown>(['done', 'cancelled']);

/**
 * Carries an order out: shows what is concerned, asks where it cannot be undone, invokes, and goes on while there is more.
 *
 * @returns the exit code
 * @throws what `invoke` throws
 */
export async function carryOut(order: Order, invoke: Invoke, terminal: Terminal): Promise<number> {
  const { confirm } = commands[order.name];
  if (order.dryRun || (confirm !== undefined && !order.yes)) {
    const code = await look(order, invoke, terminal);
    if (code !== EXIT.done || order.dryRun) return code;
    const refused = await confirmed(order, terminal);
    if (refused !== EXIT.done) return refused;
  }
  return order.watch ? watch(order, invoke, terminal) : once(order, invoke, terminal);
}

/** What the act would concern, as far as there is a command that shows it. */
async function look(order: Order, invoke: Invoke, terminal: Terminal): Promise<number> {
  const before = commands[order.name].before as CommandName | undefined;
  if (before === undefined) return EXIT.done;
  const known = commands[before].arguments.properties;
  const given = Object.entries(order.arguments).filter(([field]) => field in known);
  const answer = await invoke({ command: before, arguments: Object.fromEntries(given) });
  if (!answer.ok || order.dryRun) return shown(answer, { ...order, name: before }, terminal);
  terminal.note(rendered(answer.result, commands[before]));
  return EXIT.done;
}

async function confirmed({ name, arguments: given }: Order, terminal: Terminal): Promise<number> {
  const { confirm } = commands[name];
  if (confirm === undefined) return EXIT.done;
  const word = String(given[confirm.type]);
  if (terminal.ask === null) {
    terminal.note(`${confirm.because} Nobody can be asked here: say --yes. Nothing was changed.`);
    return EXIT.usage;
  }
  const said = await terminal.ask(`\n${confirm.because} This cannot be undone.\nType ${word} to go on: `);
  if (said.trim() === word) return EXIT.done;
  terminal.note('Not confirmed. Nothing was changed.');
  return EXIT.refused;
}

async function once(order: Order, invoke: Invoke, terminal: Terminal): Promise<number> {
  const { name: command, arguments: given, reason } = order;
  const request = { command, arguments: given, ...(reason !== undefined && { reason: reason.trim() }) };
  let answer = await invoke(request);
  if (answer.ok && answer.result['more'] === true) {
    answer =
      command === 'replay return'
        ? await followed(answer, (fromDay) => invoke({ ...request, arguments: { ...given, fromDay } }), terminal)
        : await goOn(answer, async () => invoke(request), terminal);
  }
  const code = shown(answer, order, terminal);
  if (code === EXIT.done && command === 'replay start' && answer.ok) {
    terminal.note(`${CALL} replay show ${String(answer.result['number'])} --watch tells how far it is.`);
  }
  return code;
}

/**
 * Work that takes several invocations. When as much was moved as there was at the beginning, what is left came later, or came back: that is for the
 * person to decide.
 */
async function goOn(
  first: Extract<OperationAnswer, { ok: true }>,
  again: () => Promise<OperationAnswer>,
  terminal: Terminal,
): Promise<OperationAnswer> {
  const waiting = Number(first.result['waiting']);
  let moved = Number(first.result['moved']);
  let last = first;
  while (last.result['more'] === true) {
    terminal.note(`${moved} of about ${waiting} …`);
    if (moved >= waiting) return { ...last, result: { ...last.result, waiting, moved, ended: 'all-that-were-there' } };
    const answer = await again();
    if (!answer.ok) {
      terminal.note(`${moved} were moved before this.`);
      return answer;
    }
    last = answer;
    moved += Number(answer.result['moved']);
  }
  return { ...last, result: { ...last.result, waiting, moved } };
}

/** Work that says in each answer where it goes on. */
async function followed(
  first: Extract<OperationAnswer, { ok: true }>,
  from: (next: string) => Promise<OperationAnswer>,
  terminal: Terminal,
): Promise<OperationAnswer> {
  let returned = Number(first.result['returned']);
  let last = first;
  while (last.result['more'] === true) {
    const next = String(last.result['next']);
    terminal.note(`${returned} before ${next} …`);
    const answer = await from(next);
    if (!answer.ok) {
      terminal.note(`All before ${next} are back: go on with --from-day ${next}.`);
      return answer;
    }
    last = answer;
    returned += Number(answer.result['returned']);
  }
  return { ...last, result: { ...last.result, returned } };
}

async function watch(order: Order, invoke: Invoke, terminal: Terminal): Promise<number> {
  for (;;) {
    const answer = await invoke({ command: order.name, arguments: order.arguments });
    const code = shown(answer, order, terminal);
    if (!answer.ok || ENDED.has(answer.result['state'])) return code;
    if (!order.json) terminal.print('');
    await terminal.wait(WATCH_MS);
  }
}

function shown(answer: OperationAnswer, { name, json }: Order, terminal: Terminal): number {
  if (json) terminal.print(JSON.stringify(answer));
  if (answer.ok) {
    if (!json) terminal.print(rendered(answer.result, commands[name]));
    if (!json && commands[name].kind === 'act') terminal.note(`Written down as act ${answer.act}.`);
    return EXIT.done;
  }
  const { outcome, code, message } = answer;
  if (!json) terminal.note(`${outcome === 'refused' ? 'Refused' : 'Failed'}: ${message} (${code})`);
  return outcome === 'refused' ? EXIT.refused : EXIT.failed;
}
