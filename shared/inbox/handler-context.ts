import type pg from 'pg';
import type { ReceivedEvent } from '../events/index.ts';
import type { BeforeContext, HandlerContext } from './handlers.ts';

/** What `before` of one event gets. Built while no transaction is open. */
export function beforeContext(_event: ReceivedEvent): BeforeContext {
  return {};
}

/** What `handle` of one event gets, inside its transaction. */
export function handlerContext(_event: ReceivedEvent, tx: pg.ClientBase, before: unknown): HandlerContext {
  return { tx, before };
}
