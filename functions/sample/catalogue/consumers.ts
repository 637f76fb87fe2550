import { declareConsumer } from '../../../shared/events/index.ts';
import { definition } from './definition.ts';

/** A read model of invoices that follows their events strictly in order. */
export const ledger = declareConsumer(definition, {
  name: 'ledger',
  mode: 'strict',
  startingPoint: 'beginning',
  destination: 'ledger',
  handles: ['invoice.issued', 'invoice.payment-recorded', 'invoice.paid'],
});

/** Totals per day, in whatever order the events come. */
export const analytics = declareConsumer(definition, {
  name: 'analytics',
  mode: 'any',
  handles: ['invoice.issued', 'invoice.payment-recorded', 'invoice.paid'],
});

/** One mail for each invoice that was issued, and none for who was erased. */
export const notifications = declareConsumer(definition, {
  name: 'notifications',
  mode: 'any',
  handles: ['invoice.issued', 'person.erased'],
});
