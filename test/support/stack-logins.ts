import type { Login } from '../../shared/database/index.ts';

/** The logins of stage `prod`, role for role; a test of the templates holds them against `DATABASE_LOGINS`. */
export const STACK_LOGINS = [
  { user: 'sealed_relay', roles: ['outbox_relay'] },
  { user: 'sealed_monitor', roles: ['outbox_monitor', 'inbox_monitor'] },
  { user: 'sealed_ledger', roles: ['sample_ledger', 'inbox_consumer', 'vault_reader'] },
  { user: 'sealed_analytics', roles: ['sample_analytics', 'inbox_consumer'] },
  { user: 'sealed_notifications', roles: ['sample_notifications', 'inbox_consumer', 'vault_reader'] },
  { user: 'sealed_api', roles: ['sample_api', 'sample_eraser', 'outbox_writer', 'vault_writer', 'vault_eraser'] },
  {
    user: 'sealed_janitor',
    roles: [
      'outbox_janitor',
      'outbox_archiver',
      'outbox_writer',
      'inbox_janitor',
      'sample_janitor',
      'sample_eraser',
      'vault_writer',
      'vault_rotator',
      'vault_index_rotator',
      'vault_eraser',
    ],
  },
  {
    user: 'sealed_operator',
    roles: [
      'outbox_operator',
      'outbox_replayer',
      'inbox_operator',
      'vault_operator',
      'outbox_writer',
      'sample_eraser',
      'vault_eraser',
    ],
  },
] as const satisfies readonly Login[];
