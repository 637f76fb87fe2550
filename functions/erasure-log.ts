import { type ErasureLog, s3ErasureLog } from '../shared/sealing/index.ts';
import { s3Calls } from './s3.ts';

/** The log of erasures in a bucket. */
export function bucketErasureLog(bucket: string, env: Readonly<Record<string, string | undefined>>): ErasureLog {
  return s3ErasureLog({ client: s3Calls(5_000, env), bucket });
}
