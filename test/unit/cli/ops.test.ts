import { describe, expect, it } from 'vitest';
import { carryOut, type Terminal } from '../../../cli/ops/carry-out.ts';
import { helpOf, overview } from '../../../cli/ops/help.ts';
import { type Order, parse, UsageError } from '../../../cli/ops/parse.ts';
import { rendered } from '../../../cli/ops/render.ts';
import { commandNames, type OperationAnswer } from '../../../shared/operations/index.ts';

function order(...words: readonly string[]): Order {
  const parsed = parse(words);
  if ('help' in parsed) throw new Error('help was asked for');
  return parsed.order;
}

const EVENT = '01936f00-0000-7000-8000-000000000001';
const done = (result: Record<string, unknown>, act: string | null = '17'): OperationAnswer => ({
  ok: true,
  act,
  result,
});
const refusal: OperationAnswer = {
  ok: false,
  act: '17',
  outcome: 'refused',
  code: 'NOT_IN_STATE',
  message: 'Not parked.',
};

/** A terminal that keeps what it was told, and a function that gives these answers. */
function scene(answers: readonly OperationAnswer[], said: string | null = null) {
  const told = { printed: [] as string[], noted: [] as string[], questions: [] as string[], waits: 0 };
  const requests: { command: string; arguments: object; reason?: string }[] = [];
  const rest = [...answers];
  const terminal: Terminal = {
    print: (text) => told.printed.push(text),
    note: (text) => told.noted.push(text),
    ask:
      said === null
        ? null
        : async (question) => {
            told.questions.push(question);
            return said;
          },
    wait: async () => {
      told.waits += 1;
    },
  };
  const run = async (...words: string[]): Promise<number> =>
    carryOut(
      order(...words),
      async (request) => {
        requests.push(request);
        const answer = rest.shift();
        if (answer === undefined) throw new Error('invoked once too often');
        return answer;
      },
      terminal,
    );
  return { told, requests, run };
}

describe('words', () => {
  it('become a command with typed arguments', () => {
    const words = [
      'replay',
      'start',
      'ledger',
      '--aggregate-type',
      'invoice',
      '--types',
      'a.b, c.d',
      '--per-second',
      '5',
    ];
    expect(order(...words, '--paused', '--reason', 'INC-7', '--stack', 's', '--region', 'eu-west-1')).toMatchObject({
      name: 'replay start',
      arguments: { destination: 'ledger', aggregateType: 'invoice', types: ['a.b', 'c.d'], perSecond: 5, paused: true },
      reason: 'INC-7',
      json: false,
      target: { stack: 's', region: 'eu-west-1', profile: undefined },
    });
    expect(order('calls', 'record', 'mail', EVENT, 'send', '--answer', '{"id":1}', '--reason', 'r').arguments).toEqual({
      consumer: 'mail',
      eventId: EVENT,
      name: 'send',
      answer: { id: 1 },
    });
    expect(order('skip', '4711', '--reason', 'r').arguments).toEqual({ position: '4711' });
  });

  it.each([
    [['drop', 'tables'], /there is no command drop tables/],
    [['toString'], /there is no command/],
    [['redrive', '--reason', 'r'], /takes <position>/],
    [['redrive', '1', '2', '--reason', 'r'], /takes <position>/],
    [['redrive', '1'], /say why/],
    [['redrive', '1', '--reason', '  '], /say why/],
    [['parked', 'list', '--reason', 'r'], /takes no --reason/],
    [['parked', 'list', '--watch'], /can be watched/],
    [['redrive', '1', '--reason', 'r', '--dry-run'], /has no dry run/],
    [['parked', 'list', '--limit', 'many'], /limit must be a whole number/],
    [['parked', 'list', '--forse'], /--forse/],
    [['calls', 'record', 'a', EVENT, 'n', '--answer', '{', '--reason', 'r'], /must be JSON/],
    [['calls', 'record', 'a', EVENT, 'n', '--reason', 'r'], /--answer is required/],
  ])('%j are wrong use', (words, message) => {
    expect(() => parse(words)).toThrow(UsageError);
    expect(() => parse(words)).toThrow(message);
  });

  it('ask for help, of all or of one', () => {
    expect(parse([])).toEqual({ help: null });
    expect(parse(['--help'])).toEqual({ help: null });
    expect(parse(['skip', '--help'])).toEqual({ help: 'skip' });
    for (const name of commandNames) {
      expect(overview()).toContain(`  ${name} `);
      expect(helpOf(name)).toContain(`npm run ops -- ${name}`);
    }
    expect(helpOf('skip')).toMatch(/Cannot be undone/);
    expect(helpOf('calls record')).toContain('--answer <…>');
  });
});

describe('an order', () => {
  it('that is done ends with 0, and says which act it was', async () => {
    const { run, requests, told } = scene([done({ state: 'pending', run: 1, unblocked: 2 })]);
    expect(await run('redrive', '4711', '--reason', ' mended ')).toBe(0);
    expect(requests).toEqual([{ command: 'redrive', arguments: { position: '4711' }, reason: 'mended' }]);
    expect(told.printed).toEqual(['state      pending\nrun        1\nunblocked  2']);
    expect(told.noted).toEqual(['Written down as act 17.']);
  });

  it('that is refused ends with 1, one that failed with 3', async () => {
    const refused = scene([refusal]);
    expect(await refused.run('redrive', '1', '--reason', 'r')).toBe(1);
    expect(refused.told).toMatchObject({ printed: [], noted: ['Refused: Not parked. (NOT_IN_STATE)'] });
    const failed = scene([{ ...refusal, outcome: 'failed' }]);
    expect(await failed.run('redrive', '1', '--reason', 'r')).toBe(3);
  });

  it('gives JSON and nothing else on standard output where that is asked for', async () => {
    for (const answer of [done({ parked: [], next: null }, '4'), refusal]) {
      const { run, told } = scene([answer]);
      await run('parked', 'list', '--json');
      expect(told.printed.map((text) => JSON.parse(text))).toEqual([answer]);
      expect(told.noted).toEqual([]);
    }
  });
});

describe('what cannot be undone', () => {
  const shown = done({ position: '4711', type: 'thing.happened' }, '16');

  it('is shown, and done when its name was typed', async () => {
    const { run, requests, told } = scene([shown, done({ tombstone: '5', unblocked: 0 })], '4711\n');
    expect(await run('skip', '4711', '--reason', 'r')).toBe(0);
    expect(requests.map(({ command }) => command)).toEqual(['parked show', 'skip']);
    expect(requests[0]).not.toHaveProperty('reason');
    expect(told.questions[0]).toMatch(/will never have this event.*cannot be undone.\nType 4711 to go on/s);
    expect(told.noted[0]).toContain('thing.happened');
  });

  it.each(['', 'yes', '471'])('is not done when %j was typed', async (said) => {
    const { run, requests, told } = scene([shown], said);
    expect(await run('skip', '4711', '--reason', 'r')).toBe(1);
    expect(requests).toHaveLength(1);
    expect(told.noted.at(-1)).toContain('Nothing was changed');
  });

  it('is not done where nobody can be asked, unless --yes says so', async () => {
    const { run, requests } = scene([shown]);
    expect(await run('skip', '4711', '--reason', 'r')).toBe(2);
    expect(requests).toHaveLength(1);
    const sure = scene([done({ tombstone: '5', unblocked: 0 })]);
    expect(await sure.run('skip', '4711', '--reason', 'r', '--yes')).toBe(0);
    expect(sure.requests.map(({ command }) => command)).toEqual(['skip']);
  });

  it('is not asked for when what is concerned is not there', async () => {
    const { run, requests, told } = scene([refusal], '4711');
    expect(await run('skip', '4711', '--reason', 'r')).toBe(1);
    expect(requests).toHaveLength(1);
    expect(told.questions).toEqual([]);
  });

  it('has a dry run that takes of the arguments what the look knows', async () => {
    const { run, requests, told } = scene([done({ events: 212, aggregates: 12 }, '3')]);
    expect(
      await run('replay', 'start', 'ledger', '--aggregate-type', 'invoice', '--per-second', '5', '--dry-run'),
    ).toBe(0);
    expect(requests).toEqual([
      { command: 'replay count', arguments: { destination: 'ledger', aggregateType: 'invoice' } },
    ]);
    expect(told.printed[0]).toContain('212');
  });
});

describe('long work', () => {
  const slice = (waiting: number, moved: number, ended: string) =>
    done({ waiting, moved, ended, more: ended === 'stopped' });

  it('goes on until it is done, and tells how far it is', async () => {
    const { run, told, requests } = scene([
      slice(100, 40, 'stopped'),
      slice(60, 40, 'stopped'),
      slice(20, 20, 'empty'),
    ]);
    expect(await run('dead-letters', 'redrive', 'ledger', '--reason', 'r', '--yes')).toBe(0);
    expect(requests).toHaveLength(3);
    expect(told.noted.slice(0, 2)).toEqual(['40 of about 100 …', '80 of about 100 …']);
    expect(told.printed[0]).toMatch(/waiting {2}100\nmoved {4}100\nended {4}empty/);
  });

  it('ends when as much was moved as there was: what comes after may be what came back', async () => {
    const { run, told, requests } = scene([slice(50, 40, 'stopped'), slice(50, 40, 'stopped')]);
    expect(await run('dead-letters', 'redrive', 'ledger', '--reason', 'r', '--yes')).toBe(0);
    expect(requests).toHaveLength(2);
    expect(told.printed[0]).toContain('all-that-were-there');
  });

  it('that fails in the middle says what was moved before', async () => {
    const { run, told } = scene([slice(100, 40, 'stopped'), { ...refusal, outcome: 'failed' }]);
    expect(await run('dead-letters', 'redrive', 'ledger', '--reason', 'r', '--yes')).toBe(3);
    expect(told.noted).toContain('40 were moved before this.');
  });

  it('of a replay is watched until it has ended', async () => {
    const at = (state: string, sent: number) => done({ number: 7, state, sent }, null);
    const { run, told } = scene([at('running', 0), at('running', 60), at('done', 100)]);
    expect(await run('replay', 'show', '7', '--watch', '--json')).toBe(0);
    expect(told.printed).toHaveLength(3);
  });
});

describe('an answer', () => {
  it('is shown as lines and tables, with the columns that people need', () => {
    const answer = {
      parked: [
        { position: '4711', type: 'a.b', attempts: 12, lastError: null, hidden: 1 },
        { position: '5', type: 'long.type', attempts: 3, lastError: 'Odd: x', hidden: 2 },
      ],
      next: null,
    };
    const columns = { parked: ['position', 'type', 'attempts', 'lastError'] };
    expect(rendered(answer, { columns })).toBe(
      [
        'next  –',
        '',
        'parked:',
        '  position  type       attempts  last error',
        '  4711      a.b              12  –',
        '  5         long.type         3  Odd: x',
      ].join('\n'),
    );
    expect(rendered({ parked: [] }, { columns })).toBe('parked: none');
  });

  it('cannot move the cursor, hide a line or turn the writing around', () => {
    const text = rendered({ lastError: 'a\u001b[2Jb\nc\u202ed' }, {});
    expect(text).toBe('last error  a\\u001b[2Jb\\u000ac\\u202ed');
  });
});

describe('erase', () => {
  const PERSON = '6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f';
  const words = ['erase', 'customer', PERSON, '--reason', 'DPO-7'];
  const shows = done({ outcome: 'open', classes: [{ class: 'contact', state: 'open' }] });

  it('shows how the person stands, and happens when the id is typed', async () => {
    const { told, requests, run } = scene([shows, done({ outcome: 'done', classes: [] })], PERSON);
    expect(await run(...words)).toBe(0);
    expect(requests).toEqual([
      { command: 'erasures show', arguments: { kind: 'customer', id: PERSON } },
      { command: 'erase', arguments: { kind: 'customer', id: PERSON }, reason: 'DPO-7' },
    ]);
    expect(told.noted[0]).toContain('contact');
    expect(told.questions[0]).toContain('in no backup either');
  });

  it.each(['no', null])('does not happen when %s is said', async (said) => {
    const { requests, run } = scene([shows], said);
    expect(await run(...words)).not.toBe(0);
    expect(requests.map(({ command }) => command)).toEqual(['erasures show']);
  });

  it('only shows with --dry-run, as JSON where it is wanted', async () => {
    const { told, requests, run } = scene([shows]);
    expect(await run('erase', 'customer', PERSON, '--dry-run', '--json')).toBe(0);
    expect(requests.map(({ command }) => command)).toEqual(['erasures show']);
    expect(JSON.parse(told.printed[0] ?? '')).toEqual(shows);
  });
});

describe('replay return', () => {
  const words = ['replay', 'return', '7', '--reason', 'INC-7'];
  const part = (returned: number, next: string | null) => done({ number: 7, returned, next, more: next !== null });

  it('goes on where the function says, and adds up', async () => {
    const { told, requests, run } = scene([part(5, '2026-01-03'), part(4, '2026-02-01'), part(1, null)]);
    expect(await run(...words, '--json')).toBe(0);
    expect(requests.map((request) => request.arguments)).toEqual([
      { number: 7 },
      { number: 7, fromDay: '2026-01-03' },
      { number: 7, fromDay: '2026-02-01' },
    ]);
    expect(JSON.parse(told.printed[0] ?? '')).toMatchObject({ result: { returned: 10, more: false } });
  });

  it('that fails on the way says how to go on', async () => {
    const { told, run } = scene([part(5, '2026-01-03'), refusal]);
    expect(await run(...words)).toBe(1);
    expect(told.noted.join('\n')).toContain('go on with --from-day 2026-01-03');
  });
});
