import { describe, expect, it } from 'vitest';
import { formsOf, leaksIn, textOf } from '../../support/leaks.ts';

const VALUE = `Ada "Ş" O'Neil\n☕`;

describe('looking for a value', () => {
  it.each<[string, string]>([
    ['as it is', `x${VALUE}x`],
    ['in another case', VALUE.toUpperCase()],
    ['in JSON', JSON.stringify({ a: VALUE })],
    ['in JSON within JSON', JSON.stringify(JSON.stringify({ a: VALUE }))],
    ['in SQL', `insert into t values ('${VALUE.replaceAll("'", "''")}')`],
    ['in a path', `/customers/${encodeURIComponent(VALUE)}`],
    ['in a path that is encoded again', encodeURI(`/customers/${encodeURIComponent(VALUE)}`)],
    ['in a query', new URLSearchParams({ q: VALUE }).toString()],
    ['in base64 from the start', Buffer.from(VALUE).toString('base64')],
    ['in base64 after one byte', Buffer.from(`1${VALUE}23`).toString('base64')],
    ['in base64 after two bytes', Buffer.from(`12${VALUE}3`).toString('base64url')],
    ['in hexadecimal digits', `\\x00${Buffer.from(VALUE).toString('hex').toUpperCase()}00`],
    ['as Node shows bytes', textOf(Buffer.from(`ab${VALUE}`))],
    ['as JSON shows bytes', JSON.stringify(Buffer.from(VALUE))],
    ['in the cause of an error', textOf(new Error('a', { cause: Object.assign(new Error('b'), { detail: VALUE }) }))],
  ])('finds it %s', (_form, text) => {
    expect(leaksIn({ here: ['', text], there: ['nothing'] }, [VALUE, 'another'])).toEqual([`here: ${VALUE}`]);
  });

  it('does not take a part of it for it', () => {
    expect(leaksIn({ here: [VALUE.slice(1), 'Ada O'] }, [VALUE])).toEqual([]);
    expect(formsOf('TR330006').every((form) => form.length >= 8)).toBe(true);
  });
});
