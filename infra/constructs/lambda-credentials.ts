import { SealedOutboxError } from '../../shared/errors/index.ts';

interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken: string | undefined;
}

/**
 * Stands in for `@aws-sdk/credential-provider-node` in every bundle. Lambda puts a function's credentials into its
 * environment, so the other sources of the SDK's chain (profiles, SSO, web identity, instance metadata) never run there: 125 KB of
 * the relay's 440.
 */
export function defaultProvider(): () => Promise<Credentials> {
  return async () => {
    const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN } = process.env;
    if (AWS_ACCESS_KEY_ID === undefined || AWS_SECRET_ACCESS_KEY === undefined) {
      // The SDK's name for it, by which the relay knows an outage.
      throw new SealedOutboxError(
        'CredentialsProviderError',
        'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set: nothing was sent. This bundle runs on Lambda, which sets them.',
      );
    }
    return { accessKeyId: AWS_ACCESS_KEY_ID, secretAccessKey: AWS_SECRET_ACCESS_KEY, sessionToken: AWS_SESSION_TOKEN };
  };
}
