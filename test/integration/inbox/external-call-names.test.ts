import { randomUUID } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import { createOnce } from '../../../shared/inbox/once.ts';
import { testDatabase } from '../../support/database.ts';

const database = await testDatabase();
const pool = database.pool('sealed_ledger');
const code = (wanted: string) => expect.objectContaining({ code: wanted });

describe('once', () => {
  const work = { connections: pool, consumer: 'mailer', remainingMs: () => 100_000 };
  const call = vi.fn<() => Promise<number>>(async () => 1);

  it.each(['', 'Mail', '1mail', 'a b', 'a'.repeat(64)])('refuses the name "%s"', async (name) => {
    const once = createOnce({ ...work, eventId: randomUUID() });
    await expect(once(name, call, { unanswered: 'retry' })).rejects.toEqual(code('CALL_OPTIONS'));
    expect(call).not.toHaveBeenCalled();
  });

  it('refuses a name that was used for the event already, whose answer it would give', async () => {
    const once = createOnce({ ...work, eventId: randomUUID() });
    const calls = [call, vi.fn<() => Promise<number>>(async () => 2)];
    const [first, second] = await Promise.allSettled(calls.map((it) => once('mail', it, { unanswered: 'retry' })));
    expect(first).toEqual({ status: 'fulfilled', value: 1 });
    expect(second).toEqual({ status: 'rejected', reason: code('CALL_OPTIONS') });
    expect(calls[1]).not.toHaveBeenCalled();
  });

  it('keeps calls of other names, events and consumers apart', async () => {
    const eventId = randomUUID();
    const keys: string[] = [];
    const note = async (key: string) => void keys.push(key);
    await createOnce({ ...work, eventId })('mail', note, { unanswered: 'retry' });
    await createOnce({ ...work, eventId })('letter', note, { unanswered: 'retry' });
    await createOnce({ ...work, eventId, consumer: 'other' })('mail', note, { unanswered: 'retry' });
    await createOnce({ ...work, eventId: randomUUID() })('mail', note, { unanswered: 'retry' });
    expect(new Set(keys).size).toBe(4);
  });
});
