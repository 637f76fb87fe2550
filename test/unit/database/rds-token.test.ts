import { Signer } from '@aws-sdk/rds-signer';
import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { environmentCredentials, rdsToken } from '../../../shared/database/rds-token.ts';

afterEach(() => void vi.useRealTimers());

/** A token's parameters by name: their order in the address does not matter. */
function parts(token: string): [string, Record<string, string>] {
  const [address = '', query = ''] = token.split('?');
  return [address, Object.fromEntries(query.split('&').map((pair) => pair.split('=') as [string, string]))];
}

describe('rdsToken', () => {
  it('is the token that the SDK makes, for any user, role and time', async () => {
    vi.useFakeTimers();
    const text = fc.string({
      minLength: 1,
      maxLength: 20,
      unit: fc.constantFrom(...Array.from("aZ9_-.~/+=!'()*%& ğ")),
    });
    await fc.assert(
      fc.asyncProperty(
        text,
        text,
        fc.option(text, { nil: undefined }),
        fc.date({ min: new Date('2026-01-01'), max: new Date('2040-01-01'), noInvalidDate: true }),
        async (user, secretAccessKey, sessionToken, now) => {
          vi.setSystemTime(now);
          const credentials = {
            accessKeyId: 'AKIDEXAMPLE',
            secretAccessKey,
            ...(sessionToken === undefined ? {} : { sessionToken }),
          };
          const where = { port: 5432, region: 'eu-central-1', credentials };
          const host = 'cluster.example.eu-central-1.rds.amazonaws.com';
          const signer = new Signer({ ...where, hostname: host, username: user });
          const expected = await signer.getAuthToken();
          expect(parts(rdsToken({ ...where, host, user, now }))).toEqual(parts(expected));
        },
      ),
      { numRuns: 50 },
    );
  });
});

describe('environmentCredentials', () => {
  it('takes what Lambda sets, with or without a session', () => {
    const env = { AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 's' };
    expect(environmentCredentials(env)).toEqual({ accessKeyId: 'a', secretAccessKey: 's' });
    expect(environmentCredentials({ ...env, AWS_SESSION_TOKEN: 't' })).toMatchObject({ sessionToken: 't' });
  });

  it('says what is missing', () => {
    expect(() => environmentCredentials({ AWS_ACCESS_KEY_ID: 'a' })).toThrow(/AWS_SECRET_ACCESS_KEY/);
  });
});
