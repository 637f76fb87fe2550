import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { carryOut, EXIT } from '../../cli/ops/carry-out.ts';
import { operatorOf } from '../../cli/ops/invoke.ts';
import { parse } from '../../cli/ops/parse.ts';
import { targetOf } from '../../cli/cloud/target.ts';
import type { LocalCloud } from '../../local/cloud.ts';
import { ROOT } from '../../local/environment.ts';
import { asSuperuser, MIGRATOR } from '../../local/postgres.ts';

/** What a line of a runbook showed. */
export interface Look {
  readonly line: string;
  /** Rows of a statement, or what a command printed. */
  readonly shown: unknown;
}

/** An id, a place or a name that the reader has to put their own in the place of. */
const EXAMPLE = /[0-9a-f]{8}-|4711|…|<|old-ledger/;

/**
 * Looks at all that a runbook has its reader look at, as whom it says: statements in its database and commands of the operator. What is asked of AWS's own command line, and
 * what names an example, is left out.
 *
 * @param runbook as an alarm's description has it: `docs/runbooks/lag.md`
 */
export async function look(cloud: LocalCloud, runbook: string): Promise<readonly Look[]> {
  const text = readFileSync(join(ROOT, runbook), 'utf8');
  const section = /^## Look$(.*?)^## /ms.exec(text)?.[1];
  if (section === undefined) throw new Error(`${runbook} says nothing about where to look`);
  const looks: Look[] = [];
  for (const [, words = ''] of section.matchAll(/npm run ops -- ([^`\n#]*)/g)) {
    if (!EXAMPLE.test(words)) looks.push({ line: words.trim(), shown: await asked(words.trim().split(/ +/)) });
  }
  let before = 0;
  for (const block of section.matchAll(/^ *```sql\n(.*?)^ *```/gms)) {
    const said = section.slice(before, block.index);
    before = block.index + block[0].length;
    const role = [...said.matchAll(/(?:role|member of) `([a-z_]+)`/g)].at(-1)?.[1] ?? MIGRATOR;
    for (const line of statements(block[1] ?? '')) looks.push({ line, shown: await selected(cloud, role, line) });
  }
  return looks;
}

function statements(block: string): string[] {
  return block
    .replaceAll(/--.*$/gm, '')
    .split(';')
    .map((one) => one.trim())
    .filter((one) => one !== '' && !EXAMPLE.test(one));
}

async function selected({ database }: LocalCloud, role: string, statement: string): Promise<unknown> {
  return asSuperuser(database, database.name, async (db) => {
    await db.query(`set role ${role}`);
    try {
      return (await db.query(statement)).rows as unknown;
    } catch (cause) {
      throw new Error(`${role} cannot look: ${statement}`, { cause });
    }
  });
}

async function asked(words: readonly string[]): Promise<string> {
  const parsed = parse([...words, '--directory', '.local/e2e']);
  if ('help' in parsed) throw new Error(`${words.join(' ')} asks for help`);
  const { order } = parsed;
  const operator = operatorOf(targetOf(order.target, {}), order.by);
  let printed = '';
  const print = (text: string): void => void (printed += `${text}\n`);
  try {
    const code = await carryOut(order, operator.invoke, { print, note: print, ask: null, wait: async () => {} });
    if (code !== EXIT.done) throw new Error(`npm run ops -- ${words.join(' ')} ended with ${code}: ${printed}`);
  } finally {
    operator.close();
  }
  return printed;
}
