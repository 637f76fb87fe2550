import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { targetOf } from '../../../cli/cloud/target.ts';
import { operatorOf } from '../../../cli/ops/invoke.ts';

/** What stands in for Lambda: keeps the requests, and answers as the test says. */
const requests: { path: string; body: unknown }[] = [];
let answer: (response: ServerResponse) => void = () => {};
const server = createServer((request: IncomingMessage, response: ServerResponse) => {
  let body = '';
  request.on('data', (chunk) => (body += String(chunk)));
  request.on('end', () => {
    requests.push({ path: request.url ?? '', body: JSON.parse(body) as unknown });
    answer(response);
  });
});
const directory = mkdtempSync(join(tmpdir(), 'ops-'));

beforeAll(async () => {
  await new Promise<void>((listening) => void server.listen(0, '127.0.0.1', listening));
  const AWS = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  writeFileSync(join(directory, 'state.json'), JSON.stringify({ addresses: { AWS } }));
});
afterAll(() => {
  server.close();
  rmSync(directory, { recursive: true });
});
beforeEach(() => requests.splice(0));

/** Runs the command as its own process: no terminal, so nobody can be asked. */
async function ops(...words: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const args = ['cli/ops.ts', ...words, '--directory', directory];
  return new Promise((ended) => {
    execFile(process.execPath, args, { timeout: 60_000 }, (error, stdout, stderr) => {
      ended({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr });
    });
  });
}

it('an act goes to the function of the local cloud, and its answer to standard output', async () => {
  const done = { ok: true, act: '17', result: { state: 'pending', run: 1, unblocked: 2 } };
  answer = (response) => response.end(JSON.stringify(done));
  const ended = await ops('redrive', '4711', '--reason', 'mended', '--json');
  expect(ended).toEqual({ code: 0, stdout: `${JSON.stringify(done)}\n`, stderr: '' });
  expect(requests).toEqual([
    {
      path: '/2015-03-31/functions/sealed-outbox-local-service-operator/invocations',
      body: {
        command: 'redrive',
        arguments: { position: '4711' },
        reason: 'mended',
        by: expect.stringMatching(/^local:./),
      },
    },
  ]);
});

it('an act whose answer is lost is sent once, and ends with 3', async () => {
  answer = (response) => response.destroy();
  const ended = await ops('redrive', '4711', '--reason', 'mended');
  expect(ended).toMatchObject({
    code: 3,
    stdout: '',
    stderr: expect.stringContaining('not known whether it happened'),
  });
  expect(requests).toHaveLength(1);
});

it('what cannot be undone is not sent where nobody can be asked, and ends with 2', async () => {
  answer = (response) => response.end(JSON.stringify({ ok: true, act: '1', result: { position: '4711' } }));
  expect(await ops('skip', '4711', '--reason', 'a bug')).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining('say --yes. Nothing was changed'),
  });
  expect(requests.map(({ body }) => body)).toEqual([expect.objectContaining({ command: 'parked show' })]);
});

it('wrong words are sent nowhere, and end with 2', async () => {
  expect(await ops('redrive', '4711')).toMatchObject({ code: 2, stderr: expect.stringContaining('redrive --help') });
  expect(requests).toEqual([]);
});

it('a request that nobody answers is given up, and said to be cut off', async () => {
  answer = () => {};
  const operator = operatorOf(targetOf({ directory }, {}), 'ada', 50);
  await expect(operator.invoke({ command: 'status', arguments: {} })).rejects.toMatchObject({
    code: 'OPERATOR_CUT_OFF',
  });
  operator.close();
  server.closeAllConnections();
});
