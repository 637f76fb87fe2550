import type { Login } from '../../shared/database/index.ts';

export const TEMPLATE = 'sealed_outbox_template';

/** The users of the functions, as the deployment creates them, and one for each role that no function has yet. */
export const LOGINS = [
  { user: 'sealed_api', roles: ['outbox_writer', 'sample_api', 'sample_eraser', 'vault_writer', 'vault_eraser'] },
  { user: 'sealed_relay', roles: ['outbox_relay'] },
  { user: 'sealed_ledger', roles: ['inbox_consumer', 'sample_ledger', 'vault_reader'] },
  { user: 'sealed_analytics', roles: ['inbox_consumer', 'sample_analytics'] },
  { user: 'sealed_notifications', roles: ['inbox_consumer', 'sample_notifications', 'vault_reader'] },
  { user: 'sealed_monitor', roles: ['outbox_monitor', 'inbox_monitor'] },
  { user: 'sealed_janitor', roles: ['outbox_janitor', 'outbox_archiver', 'inbox_janitor', 'sample_janitor'] },
  { user: 'sealed_pruner', roles: ['outbox_janitor'] },
  { user: 'sealed_operator', roles: ['outbox_operator', 'inbox_operator'] },
  { user: 'sealed_replayer', roles: ['outbox_replayer'] },
  { user: 'sealed_writer', roles: ['outbox_writer'] },
  { user: 'sealed_sealer', roles: ['outbox_writer', 'vault_writer'] },
  { user: 'sealed_opener', roles: ['inbox_consumer', 'vault_reader'] },
  { user: 'sealed_index_rotator', roles: ['vault_index_rotator'] },
  { user: 'sealed_eraser', roles: ['vault_eraser', 'outbox_writer'] },
  { user: 'sealed_auditor', roles: ['vault_reader', 'vault_restricted_reader'] },
  { user: 'sealed_rotator', roles: ['vault_writer', 'vault_rotator'] },
  { user: 'sealed_keeper', roles: ['vault_writer', 'vault_rotator', 'vault_index_rotator', 'sample_eraser'] },
  { user: 'sealed_asker', roles: ['vault_operator'] },
  {
    user: 'sealed_erasing_operator',
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
  { user: 'sealed_reactor', roles: ['inbox_consumer', 'outbox_writer'] },
] as const satisfies readonly Login[];

export type TestUser = (typeof LOGINS)[number]['user'] | 'sealed_migrator';
