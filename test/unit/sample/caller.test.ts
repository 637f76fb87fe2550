import { describe, expect, it } from 'vitest';
import { callerRules, seesClearValues } from '../../../functions/sample/api/caller.ts';
import type { HttpEvent } from '../../../functions/sample/api/request.ts';

const USER = 'arn:aws:iam::111122223333:user/staff/ada';
const ROLE = 'arn:aws:iam::111122223333:role/billing/eu/Clerk';
const rules = callerRules({ CLEAR_VALUES_FOR: JSON.stringify([USER, ROLE]) });

function request(userArn?: string, headers: Record<string, string> = {}): HttpEvent {
  return {
    routeKey: 'GET /invoices/{id}',
    rawPath: '/invoices/1',
    headers,
    isBase64Encoded: false,
    requestContext: { http: { method: 'GET' }, ...(userArn === undefined ? {} : { authorizer: { iam: { userArn } } }) },
  };
}

describe('who sees personal values whole', () => {
  it.each([USER, ROLE, 'arn:aws:sts::111122223333:assumed-role/Clerk/ada@example.org'])('%s', (arn) => {
    expect(seesClearValues(rules, request(arn))).toBe(true);
  });

  it.each([
    undefined,
    '',
    'arn:aws:iam::111122223333:user/ada',
    'arn:aws:iam::444455556666:user/staff/ada',
    'arn:aws:sts::444455556666:assumed-role/Clerk/ada',
    'arn:aws-cn:sts::111122223333:assumed-role/Clerk/ada',
    'arn:aws:sts::111122223333:assumed-role/clerk/ada',
    'arn:aws:sts::111122223333:assumed-role/eu/Clerk',
    'arn:aws:sts::111122223333:federated-user/Clerk',
    `${USER}x`,
  ])('is not %s', (arn) => {
    expect(seesClearValues(rules, request(arn))).toBe(false);
  });

  it('is nobody where nobody is named', () => {
    expect(seesClearValues(callerRules({}), request(USER))).toBe(false);
  });
});

describe('a header that names the principal', () => {
  const headers = { 'X-Local-Principal': USER };

  it('counts where a variable names it, and nowhere else', () => {
    expect(seesClearValues(rules, request(undefined, headers))).toBe(false);
    const local = callerRules({
      CLEAR_VALUES_FOR: JSON.stringify([USER]),
      LOCAL_PRINCIPAL_HEADER: 'x-local-principal',
    });
    expect(seesClearValues(local, request(undefined, headers))).toBe(true);
    expect(seesClearValues(local, request(undefined, { 'x-local-principal': 'arn:aws:iam::1:user/x' }))).toBe(false);
  });

  it('counts for nothing beside a signature', () => {
    const local = { ...rules, localHeader: 'x-local-principal' };
    expect(seesClearValues(local, request('arn:aws:iam::111122223333:user/guest', headers))).toBe(false);
  });
});

it.each(['', '{}', 'null', '["*"]', `["${ROLE}*"]`, '["arn:aws:iam::111122223333:root"]', `"${USER}"`])(
  'refuses CLEAR_VALUES_FOR=%s',
  (text) => {
    expect(() => callerRules({ CLEAR_VALUES_FOR: text })).toThrow(expect.objectContaining({ code: 'CALLER_CONFIG' }));
  },
);
