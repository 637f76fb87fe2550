import {
  GetObjectCommand,
  type GetObjectCommandInput,
  ListObjectsV2Command,
  type ListObjectsV2CommandInput,
  PutObjectCommand,
  type PutObjectCommandInput,
  S3Client,
  type S3ClientConfig,
} from '@aws-sdk/client-s3';
import type { S3ErasureLogOptions } from '../shared/sealing/index.ts';

/** S3 with three of its hundred calls in the bundle: `S3`, which has a method for each, would bring them all. */
export function s3Calls(config: S3ClientConfig): S3ErasureLogOptions['client'] & { destroy(): void } {
  const s3 = new S3Client(config);
  return {
    putObject: (input: PutObjectCommandInput) => s3.send(new PutObjectCommand(input)),
    listObjectsV2: (input: ListObjectsV2CommandInput) => s3.send(new ListObjectsV2Command(input)),
    getObject: (input: GetObjectCommandInput) => s3.send(new GetObjectCommand(input)),
    destroy: () => s3.destroy(),
  };
}
