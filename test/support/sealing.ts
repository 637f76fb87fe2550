import { createHash } from 'node:crypto';
import {
  type EventContext,
  type KeyName,
  type RowContext,
  type SubjectKey,
  subjectKey,
} from '../../shared/sealing/index.ts';

/** A key that is the same in every run. */
export function testKey(name: string, more: Partial<KeyName> = {}): SubjectKey {
  const bytes = (what: string): Buffer => createHash('sha256').update(`${what} ${name}`).digest();
  return subjectKey(
    { class: 'contact', keyId: bytes('id').subarray(0, 16).toString('base64url'), version: 1, ...more },
    bytes('secret'),
  );
}

export const EVENT: EventContext = {
  in: 'event',
  eventType: 'invoice.issued',
  aggregateType: 'invoice',
  aggregateId: '6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f',
  eventId: '01890a5d-ac96-774b-bcce-b302099a8057',
  pointer: '/customer/name',
};

export const ROW: RowContext = {
  in: 'row',
  store: 'invoices',
  table: 'sample.invoice',
  primaryKey: '6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f',
  column: 'customer_name',
};

/** The code of what a call throws; the call must throw one of ours. */
export function codeOf(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    return (error as { readonly code?: string }).code ?? String(error);
  }
  return 'nothing was thrown';
}
