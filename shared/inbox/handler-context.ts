import type pg from 'pg';
import type { ReceivedEvent } from '../events/index.ts';
import type { BeforeContext, HandlerContext } from './handlers.ts';
import { createOnce } from './once.ts';
import type { Work } from './work.ts';

/** What `before` of one event gets. Built while no transaction is open. */
export function beforeContext({ invocation, consumer }: Work, event: ReceivedEvent): BeforeContext {
  const remainingMs = (): number => invocation.usableMs();
  return { once: createOnce({ connections: invocation, consumer: consumer.name, eventId: event.id, remainingMs }) };
}

/** What `handle` of one event gets, inside its transaction. */
export function handlerContext(_event: ReceivedEvent, tx: pg.ClientBase, before: unknown): HandlerContext {
  return { tx, before };
}
