import type { ReceivedEvent } from '../../../shared/events/index.ts';
import {
  ERASED_TEXT,
  type EventContext,
  isErased,
  type Keyring,
  type OpeningKeys,
  type Sealed,
  sealedText,
} from '../../../shared/sealing/index.ts';
import { moveSealed, rowContext, sealedRowNames, type SealedTable } from '../sealed-rows.ts';

const LEDGER_INVOICE = {
  store: 'ledger',
  table: 'sample.ledger_invoice',
  columns: { customer_name: 'contact' },
} as const satisfies SealedTable;

/** The name as the event has it, with the keys to move it. */
export interface SealedName {
  readonly text: string;
  readonly keys: OpeningKeys;
}

/** Loads the key of a name. Not inside a transaction: it may wait for the vault and for KMS. */
export async function sealedName(keyring: Keyring, name: Sealed): Promise<SealedName> {
  const text = isErased(name) ? ERASED_TEXT : sealedText(name);
  return { text, keys: await keyring.keysToOpen(sealedRowNames({ text })) };
}

/** The name of an issued invoice's customer, sealed for the ledger's row. Only computes. */
export function nameForLedger(event: ReceivedEvent, { text, keys }: SealedName): string {
  const written: EventContext = {
    in: 'event',
    eventType: event.type,
    aggregateType: event.aggregateType,
    aggregateId: event.aggregateId,
    eventId: event.id,
    pointer: '/customer/name',
  };
  return moveSealed(text, keys, written, rowContext(LEDGER_INVOICE, event.aggregateId, 'customer_name'));
}
