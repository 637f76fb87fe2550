import type { Entry } from './constructs/bundle.ts';

/** The sample's functions, by the files that export their handlers. */
export const SAMPLE_FUNCTIONS = {
  api: 'functions/sample/api/index.ts',
  notifications: 'functions/sample/notifications/index.ts',
  ledger: 'functions/sample/ledger/index.ts',
  analytics: 'functions/sample/analytics/index.ts',
  migrate: 'functions/migrate/index.ts',
} as const;

/** All that the service stack deploys. */
export const FUNCTIONS = {
  ...SAMPLE_FUNCTIONS,
  janitor: { own: 'janitor' },
  operator: { own: 'operator' },
  relay: { own: 'relay' },
  monitor: { own: 'monitor' },
} as const satisfies Readonly<Record<string, Entry>>;
