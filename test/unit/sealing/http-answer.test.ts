import { readdir, readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import {
  KeysNotPreparedError,
  sealingAnswer,
  SealingError,
  SealingRefusedError,
} from '../../../shared/sealing/index.ts';

it('answers 503 only for what passes, with the seconds to wait', () => {
  expect(sealingAnswer(new SealingError('SEALING_THROTTLED', 'm'))).toEqual({ status: 503, retryAfter: 5 });
  expect(sealingAnswer(new SealingError('SEALING_UNAVAILABLE', 'm'))).toEqual({ status: 503, retryAfter: 5 });
  expect(sealingAnswer(new SealingError('SEALING_KEY_DISABLED', 'm'))).toEqual({ status: 503, retryAfter: 60 });
  for (const code of ['DENIED', 'KEY_UNKNOWN', 'TAMPERED', 'MALFORMED', 'LIMIT'] as const) {
    expect(sealingAnswer(new SealingError(`SEALING_${code}`, 'm'))).toEqual({ status: 500 });
  }
});

it('answers 400 for what the client sent, 500 for what the program forgot, and nothing for errors of others', () => {
  expect(sealingAnswer(new SealingRefusedError('holds half a surrogate pair'))).toEqual({ status: 400 });
  expect(sealingAnswer(new KeysNotPreparedError('m'))).toEqual({ status: 500 });
  expect(sealingAnswer(new Error('m'))).toBeNull();
  expect(sealingAnswer('SEALING_DENIED')).toBeNull();
});

it('the relay and its publishers know nothing of sealing: there is no error of it that they could meet', async () => {
  for (const directory of ['shared/outbox/relay', 'shared/outbox/publish', 'functions/relay']) {
    const files = (await readdir(directory, { recursive: true })).filter((file) => file.endsWith('.ts'));
    expect(files.length).toBeGreaterThan(0);
    for (const file of files) expect(await readFile(`${directory}/${file}`, 'utf8')).not.toContain('/sealing/');
  }
});
