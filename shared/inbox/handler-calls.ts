import { groupOf } from './groups.ts';
import type { EventMessage } from './message.ts';

/** Messages whose events are given to a handler in one call: all of one type, and more than one only if the handler takes many. */
export type HandlerCall = readonly [EventMessage, ...EventMessage[]];

/**
 * The calls that handle the messages of a transaction, in order. An event joins the first call of its type that is not before another
 * event of its aggregate or of its message group: so each of these stays in order, and a batch takes few calls however it is mixed.
 */
export function handlerCalls(messages: readonly EventMessage[]): readonly HandlerCall[] {
  const calls: [EventMessage, ...EventMessage[]][] = [];
  const reached = new Map<string, number>();
  for (const message of messages) {
    const { event, record, steps } = message;
    const orders = [`aggregate ${event.aggregateType}/${event.aggregateId}`];
    const group = groupOf(record);
    if (group !== undefined) orders.push(`group ${group}`);
    const earliest = Math.max(0, ...orders.map((order) => reached.get(order) ?? 0));
    const found = calls.findIndex(([first], n) => n >= earliest && first.event.type === event.type);
    const joined = steps?.handleMany === undefined ? undefined : calls[found];
    if (joined === undefined) calls.push([message]);
    else joined.push(message);
    for (const order of orders) reached.set(order, joined === undefined ? calls.length - 1 : found);
  }
  return calls;
}
