import { describe, expect, it } from 'vitest';
import type { DayFact, EventFact, Facts } from '../../../local/check/facts.ts';
import { CUSTOMER } from '../../../local/check/traffic.ts';
import { verify } from '../../../local/check/verify.ts';

const event = (sequence: number, type: string, data: EventFact['data'] = {}): EventFact => ({
  id: `e${sequence}`,
  invoiceId: 'i',
  sequence,
  type,
  data,
  deliveries: ['published'],
  committedAt: 0,
  applied: true,
  appliedAt: sequence * 100,
  day: '2026-11-30',
  counted: true,
});
const day = (type: string, events: number, amountMinor: number): DayFact => ({
  day: '2026-11-30',
  type,
  events,
  amountMinor,
});
const entry = (sequence: number) => ({ eventId: `e${sequence}`, invoiceId: 'i', sequence });

/** An invoice of 10.00, paid in two parts. */
const right: Facts = {
  events: [
    event(1, 'invoice.issued', { totalMinor: 1000 }),
    event(2, 'invoice.payment-recorded', { amountMinor: 400 }),
    event(3, 'invoice.payment-recorded', { amountMinor: 600 }),
    event(4, 'invoice.paid', { totalMinor: 1000 }),
  ],
  entries: [1, 2, 3, 4].map(entry),
  ledger: [{ invoiceId: 'i', totalMinor: 1000, paidMinor: 1000, status: 'paid', lastSequence: 4, effects: 4 }],
  analytics: [day('invoice.issued', 1, 1000), day('invoice.payment-recorded', 2, 1000), day('invoice.paid', 1, 1000)],
  notifications: [{ eventId: 'e1', invoiceId: 'i', mailId: 'm' }],
  held: [],
};
const sent = [{ id: 'i', totalMinor: 1000, paidMinor: 1000, payments: 2 }];
const mails = [{ id: 'm', reference: 'i', to: CUSTOMER.email }];
const ledger = (change: object): Facts['ledger'] => right.ledger.map((row) => ({ ...row, ...change }));

describe('verify', () => {
  it('finds nothing wrong where all is right, and counts', () => {
    expect(verify(right, sent, mails)).toEqual({
      committed: 4,
      published: 4,
      effects: 4,
      counted: 4,
      mails: 1,
      orderBreaks: 0,
      duplicates: 0,
      medianMs: 200,
      worstMs: 400,
      wrong: [],
    });
  });

  it('knows no times where nothing has arrived', () => {
    expect(
      verify({ events: [], entries: [], ledger: [], analytics: [], notifications: [], held: [] }, [], []),
    ).toMatchObject({
      medianMs: null,
      worstMs: null,
      wrong: [],
    });
  });

  it('knows no times of rows that the server has frozen, and that they were applied all the same', () => {
    const frozen = right.events.map((fact) => ({ ...fact, committedAt: null, appliedAt: null }));
    expect(verify({ ...right, events: frozen }, sent, mails)).toMatchObject({
      medianMs: null,
      worstMs: null,
      wrong: [],
    });
  });

  it.each<[string, Facts, RegExp]>([
    ['an effect too few', { ...right, entries: [1, 2, 4].map(entry) }, /event 4 was applied after 2/],
    ['an order break', { ...right, entries: [1, 3, 2, 4].map(entry) }, /event 3 was applied after 1/],
    ['a duplicate', { ...right, entries: [1, 2, 2, 3, 4].map(entry) }, /1 effects happened more than once/],
    [
      'an effect without an event',
      { ...right, entries: [1, 2, 3, 4, 5].map(entry) },
      /event e5, which is not in the outbox/,
    ],
    [
      'a wrong sum',
      { ...right, ledger: ledger({ paidMinor: 999 }) },
      /paidMinor is 999 in the ledger, its events say 1000/,
    ],
    [
      'a wrong status',
      { ...right, ledger: ledger({ status: 'issued' }) },
      /status is issued in the ledger, its events say paid/,
    ],
    ['a missing row', { ...right, ledger: [] }, /invoice i is not in the ledger/],
    [
      'an event that was not applied',
      { ...right, events: right.events.map((fact) => ({ ...fact, applied: false, appliedAt: null })) },
      /e1 has had no effect/,
    ],
    [
      'an event that analytics did not take',
      { ...right, events: right.events.map((fact) => ({ ...fact, counted: false })) },
      /e1 was not counted by analytics/,
    ],
    [
      'an event that analytics counted twice',
      { ...right, analytics: [...right.analytics.slice(0, 2), day('invoice.paid', 2, 2000)] },
      /invoice.paid on 2026-11-30: analytics has 2 of 2000 together, its events say 1 of 1000/,
    ],
    ['a day that analytics lost', { ...right, analytics: right.analytics.slice(1) }, /analytics has 0 of 0 together/],
    ['a day of no event', { ...right, analytics: [...right.analytics, day('other', 1, 0)] }, /its events say 0 of 0/],
    ['a mail that nobody noted', { ...right, notifications: [] }, /invoice i: 1 mails sent and 0 noted, 1 must be/],
    [
      'a mail that was noted twice',
      { ...right, notifications: [...right.notifications, ...right.notifications] },
      /1 mails sent and 2 noted/,
    ],
    [
      'a mail that is noted under another id',
      { ...right, notifications: [{ eventId: 'e1', invoiceId: 'i', mailId: 'other' }] },
      /under the same id/,
    ],
    [
      'an event that a consumer still holds',
      { ...right, held: [{ consumer: 'ledger', eventId: 'e9', reason: 'gap' }] },
      /ledger holds event e9 as gap/,
    ],
    [
      'an event that is not noted as published',
      { ...right, events: right.events.map((fact) => ({ ...fact, deliveries: ['pending'] })) },
      /is noted as pending/,
    ],
    [
      'an event that the API did not accept',
      { ...right, events: [...right.events, event(5, 'invoice.paid')] },
      /5 events, the API accepted 4/,
    ],
  ])('names %s', (_, facts, fault) => {
    expect(verify(facts, sent, mails).wrong).toContainEqual(expect.stringMatching(fault));
  });

  it.each([
    [
      'two mails for one invoice',
      [...mails, { id: 'n', reference: 'i', to: CUSTOMER.email }],
      /2 mails sent and 1 noted/,
    ],
    ['an invoice without a mail', [], /0 mails sent and 1 noted/],
    ['a mail to somebody else', [{ id: 'm', reference: 'i', to: 'else@lovelace.example' }], /to another address/],
    [
      'a mail for no invoice',
      [...mails, { id: 'n', reference: 'j', to: CUSTOMER.email }],
      /invoice j: 1 mails sent and 0 noted, 0 must be/,
    ],
  ])('names %s', (_, sentMails, fault) => {
    expect(verify(right, sent, sentMails).wrong).toContainEqual(expect.stringMatching(fault));
  });
});
