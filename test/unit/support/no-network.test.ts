import { createServer } from 'node:http';
import net from 'node:net';
import pg from 'pg';
import { expect, test } from 'vitest';

const REFUSED = /unit tests may not use the network/;

test('refuses a socket to this machine and to another', () => {
  expect(() => net.connect(5432, '127.0.0.1')).toThrow(REFUSED);
  expect(() => net.connect({ host: 'example.com', port: 443 })).toThrow(REFUSED);
});

test('refuses a server', () => {
  expect(() => createServer().listen(0)).toThrow(REFUSED);
});

test('refuses fetch', async () => {
  const error = await fetch('http://127.0.0.1:8080/').catch((cause: unknown) => cause);
  expect(String((error as Error).cause)).toMatch(REFUSED);
});

test('refuses a database client', async () => {
  await expect(new pg.Client({ host: '127.0.0.1' }).connect()).rejects.toThrow(REFUSED);
});
