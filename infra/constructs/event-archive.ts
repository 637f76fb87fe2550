import { Duration, Validations } from 'aws-cdk-lib';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { IFunction } from 'aws-cdk-lib/aws-lambda';
import { BlockPublicAccess, Bucket, BucketEncryption, ObjectOwnership, StorageClass } from 'aws-cdk-lib/aws-s3';
import { Construct, type IConstruct } from 'constructs';
import { arnInFindings } from './bucket-findings.ts';

export interface EventArchiveProps {
  /** Objects are deleted after so long. Default: never. */
  readonly expireAfter?: Duration;
}

/**
 * A bucket for events that leave the outbox: private, encrypted, by TLS only. Objects are never overwritten with other content; versions protect them from
 * being deleted by mistake.
 */
export class EventArchive extends Construct {
  readonly bucket: Bucket;

  constructor(scope: Construct, id: string, { expireAfter }: EventArchiveProps = {}) {
    super(scope, id);
    this.bucket = new Bucket(this, 'Bucket', {
      blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
      objectOwnership: ObjectOwnership.BUCKET_OWNER_ENFORCED,
      encryption: BucketEncryption.S3_MANAGED,
      enforceSSL: true,
      minimumTLSVersion: 1.2,
      versioned: true,
      lifecycleRules: [
        {
          id: 'rarely-read',
          // Read at once when they are, at a fifth of the price.
          transitions: [{ storageClass: StorageClass.GLACIER_INSTANT_RETRIEVAL, transitionAfter: Duration.days(30) }],
          noncurrentVersionExpiration: Duration.days(30),
          abortIncompleteMultipartUploadAfter: Duration.days(1),
          ...(expireAfter !== undefined && { expiration: expireAfter }),
        },
      ],
    });
    Validations.of(this.bucket).acknowledge({
      id: 'AwsSolutions-S1',
      reason:
        'Who reads the archive is in CloudTrail data events, where an account wants that; access logs would be a second bucket with copies of nothing else.',
    });
  }

  /** Lets `fn` read the events, and neither add nor delete any. */
  grantRead(fn: IFunction & IConstruct): void {
    fn.addToRolePolicy(
      new PolicyStatement({
        actions: ['s3:ListBucket'],
        resources: [this.bucket.bucketArn],
        conditions: { StringLike: { 's3:prefix': 'events/*' } },
      }),
    );
    fn.addToRolePolicy(
      new PolicyStatement({ actions: ['s3:GetObject'], resources: [this.bucket.arnForObjects('events/*')] }),
    );
    Validations.of(fn.role ?? fn).acknowledge({
      id: `AwsSolutions-IAM5[Resource::${arnInFindings(this.bucket, fn)}/events/*]`,
      reason: 'GetObject only, below one prefix of one bucket: whoever brings events back reads any of them.',
    });
  }

  /** Lets `fn` add objects, and neither read nor delete any. */
  grantAdd(fn: IFunction & IConstruct): void {
    const resource = this.bucket.arnForObjects('events/*');
    fn.addToRolePolicy(new PolicyStatement({ actions: ['s3:PutObject'], resources: [resource] }));
    Validations.of(fn.role ?? fn).acknowledge({
      id: `AwsSolutions-IAM5[Resource::${arnInFindings(this.bucket, fn)}/events/*]`,
      reason:
        'PutObject only, below one prefix of one bucket: the names of new objects are made of what is in them, so nothing shorter than a wildcard names them. It may neither read nor list nor delete.',
    });
  }
}
