import { defineCatalogue, upcaster } from '../../../shared/events/index.ts';
import { personErasedEvent } from '../../../shared/sealing/index.ts';
import { invoiceIssued1, invoiceIssued2 } from './invoice-issued.ts';
import { invoicePaid1 } from './invoice-paid.ts';
import { invoicePaymentRecorded1 } from './invoice-payment-recorded.ts';

/**
 * The events of the sample invoice service. The ledger reads all of them in order: it builds on each one before. Analytics reads the same
 * ones through EventBridge and only counts. Notifications only want to
 * know that an invoice was issued, and who is not to be named any more.
 */
export const definition = defineCatalogue({
  source: '/invoices',
  destinations: {
    ledger: { kind: 'sqs-fifo', groupId: 'aggregate-id', maxBytes: 1_048_576 },
    analytics: { kind: 'eventbridge' },
    notifications: { kind: 'sqs' },
  },
  events: {
    'invoice.issued': {
      aggregate: 'invoice',
      sensitive: { class: 'contact', subject: { kind: 'customer', id: '/customerId' } },
      versions: { 1: invoiceIssued1, 2: invoiceIssued2 },
      upcast: { 1: upcaster(invoiceIssued1, invoiceIssued2)((data) => data) },
      whenParked: 'block',
      destinations: ['ledger', 'analytics', 'notifications'],
    },
    'invoice.payment-recorded': {
      aggregate: 'invoice',
      versions: { 1: invoicePaymentRecorded1 },
      whenParked: 'block',
      destinations: ['ledger', 'analytics'],
    },
    'invoice.paid': {
      aggregate: 'invoice',
      versions: { 1: invoicePaid1 },
      whenParked: 'block',
      destinations: ['ledger', 'analytics'],
    },
    // Not to the ledger: its queue carries one aggregate type, and what it keeps of a person is sealed.
    'person.erased': personErasedEvent('notifications'),
  },
});
