import { databaseUrl, type LocalCloud } from './cloud.ts';
import { CLERK } from './check/personal-data.ts';
import { invoiceBody } from './check/traffic.ts';
import type { Report } from './report.ts';

/** Prints where everything is, and lines to try it with. */
export function printAddresses(cloud: LocalCloud, report: Report): void {
  const { apiUrl, endpoint, database, mailProviderUrl, outputs } = cloud;
  const rows = [
    ['API', apiUrl],
    ['Queue', outputs['LedgerQueueUrl'] ?? ''],
    ['Event bus', outputs['EventBusName'] ?? ''],
    ['Dead letters', outputs['LedgerDeadLetterQueueUrl'] ?? ''],
    ['Mails sent', `${mailProviderUrl}/mails`],
    ['PostgreSQL', databaseUrl(database)],
    ['Local AWS', `${endpoint} (AWS_ENDPOINT_URL; any credentials, region ${cloud.client.region})`],
  ] as const;
  report.line('');
  for (const [name, address] of rows) report.line(`  ${name.padEnd(14)}${address}`);
  report.line(`
Try it:
  curl -i '${apiUrl}/invoices' -H 'content-type: application/json' -H "idempotency-key: $(date +%s)" \\
    -d '${JSON.stringify(EXAMPLE)}'
  curl '${apiUrl}/invoices/<id from the answer>'
  curl '${apiUrl}/invoices/<id>' -H '${HEADER}'     # who may see personal data whole
  curl -i '${apiUrl}/invoices/<id>/payments' -H 'content-type: application/json' -H "idempotency-key: $(date +%s)-p" \\
    -d '{"amountMinor": 1500}'
  npm run ops -- status
  npm run alarms
`);
}

const EXAMPLE = invoiceBody(3);
const HEADER = Object.entries(CLERK).flat().join(': ');
