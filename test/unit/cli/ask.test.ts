import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { ask } from '../../../cli/cloud/ask.ts';
import { ask as askBeforeDeployment } from '../../../infra/deploy/ask.ts';

describe.each([
  ['an operator', ask],
  ['whoever deploys', askBeforeDeployment],
])('a question to %s', (_, asks) => {
  it.each([
    ['is answered by a line', '4711\r', '4711'],
    ['that Ctrl-C ends has no answer', '47\u0003', ''],
    ['that Ctrl-D ends has no answer', '\u0004', ''],
  ])('%s', async (_what, typed, answer) => {
    const input = new PassThrough();
    const asked = asks('Type 4711: ', input, new PassThrough());
    input.write(typed);
    expect(await asked).toBe(answer);
  });
});
