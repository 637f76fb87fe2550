import { SealedOutboxError } from '../shared/errors/index.ts';
import type { StageName } from './stages.ts';

/** The sample's mail provider is not given, or over a way that anybody can read. Code `MAIL_PROVIDER_SETTING`. */
class MailProviderSettingError extends SealedOutboxError {
  constructor(message: string) {
    super('MAIL_PROVIDER_SETTING', `${message} Nothing was synthesised.`);
  }
}

interface Given {
  /** The context value `mailProvider`. */
  readonly context: unknown;
  /** The variable `SEALED_OUTBOX_MAIL_PROVIDER`. */
  readonly variable: string | undefined;
}

/**
 * The address of the provider that the sample's notifications send their mail through: on stage `local` from the variable, as the local
 * cloud sets it, elsewhere from `-c mailProvider=https://…`.
 *
 * @throws MailProviderSettingError (`MAIL_PROVIDER_SETTING`)
 */
export function mailProviderSetting(stage: StageName, given: Given): string {
  const local = stage === 'local';
  const value = local ? given.variable : given.context;
  const remedy = local
    ? 'Stage local takes it from SEALED_OUTBOX_MAIL_PROVIDER; "npm start" sets it.'
    : `Stage ${stage} takes it from -c mailProvider=https://….`;
  if (typeof value !== 'string' || value === '') {
    throw new MailProviderSettingError(`The address of the mail provider is not set. ${remedy}`);
  }
  const url = URL.parse(value);
  if (url === null || url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '') {
    throw new MailProviderSettingError(
      `The address of the mail provider is no plain URL: a key in it would end up in the template. ${remedy}`,
    );
  }
  if (url.protocol !== 'https:' && !(local && url.hostname === '127.0.0.1')) {
    throw new MailProviderSettingError(`The address of the mail provider must begin with https://. ${remedy}`);
  }
  return value.replace(/\/+$/, '');
}
