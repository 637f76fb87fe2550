import { type HandlersOf, handlerSteps } from '../../../shared/inbox/index.ts';
import { erasedPersonsHandler, type Keyring } from '../../../shared/sealing/index.ts';
import { erasableNotes } from '../catalogue/erasable.ts';
import type { notifications } from '../catalogue/consumers.ts';
import type { catalogue } from '../catalogue/index.ts';
import type { AcceptedMail, MailClient } from './mail-client.ts';
import { invoiceNotice } from './notice.ts';
import { recipientFor, recorder, type RecordedMail, withKeys } from './recipient.ts';
import { noteSent } from './sent.ts';

/** Of an event that names no customer nothing is kept but the provider's id. */
const onlyId = ({ id }: AcceptedMail): RecordedMail => ({ id, to: null });

/**
 * One mail for each invoice: sent before the transaction, under a key that stays the same, and noted in it. None for a customer who was
 * erased, of whom the notes no longer say where a mail went.
 */
export function notificationHandlers(
  mail: MailClient,
  keyring: Keyring,
): HandlersOf<typeof catalogue, typeof notifications> {
  return {
    'invoice.issued': handlerSteps({
      before: async (event, { once }) => {
        const notice = invoiceNotice(event.data);
        if (notice === undefined) return undefined;
        const { customer, customerId } = event.data;
        const toRecord = customer === undefined ? onlyId : await recorder(keyring, event, customerId);
        const recorded = await once('mail', (key, signal) => mail.send(key, notice, signal), {
          lookup: (key, signal) => mail.find(key, signal),
          unanswered: 'retry',
          toRecord,
        });
        return withKeys(keyring, recorded);
      },
      handle: async (event, { tx, before: sent }) => {
        if (sent === undefined) return;
        const { customerId } = event.data;
        await noteSent(tx, event, sent.id, { customerId, sealed: recipientFor(event, sent) });
      },
    }),
    'person.erased': erasedPersonsHandler(erasableNotes),
  };
}
