import { type Handlers, handlerSteps } from '../../../shared/inbox/index.ts';
import type { catalogue } from '../catalogue/index.ts';
import type { MailClient } from './mail-client.ts';
import { invoiceNotice } from './notice.ts';
import { noteSent } from './sent.ts';

/** One mail for each invoice: sent before the transaction, under a key that stays the same, and noted in it. */
export function notificationHandlers(mail: MailClient): Handlers<typeof catalogue> {
  return {
    'invoice.issued': handlerSteps({
      before: (event, { once }) =>
        once('mail', (key, signal) => mail.send(key, invoiceNotice(event.data), signal), {
          lookup: (key, signal) => mail.find(key, signal),
          unanswered: 'retry',
        }),
      handle: (event, { tx, before: sent }) => noteSent(tx, event, sent.id),
    }),
  };
}
