import { Duration, RemovalPolicy, Validations } from 'aws-cdk-lib';
import { AnyPrincipal, Effect, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { BlockPublicAccess, Bucket, BucketEncryption, ObjectLockRetention, ObjectOwnership } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { arnInFindings } from './bucket-findings.ts';
import type { KeyUser } from './key-user.ts';

export interface ErasureLogProps {
  /**
   * No one can delete or change an entry for so long after it was written, the account's root not either: S3 Object Lock in compliance mode. Longer than the oldest
   * backup of the database that may be restored. A bucket with such entries cannot be deleted with its stack. Default: no lock.
   */
  readonly lockFor?: Duration | undefined;
  /** What becomes of the bucket when it leaves the stack. Default: retained. */
  readonly removalPolicy?: RemovalPolicy;
}

interface Part {
  /** That is listed. */
  readonly prefix: string;
  /** That are read and written below it. */
  readonly objects: string;
}

/** Entries, each with its number for a name. */
const ENTRIES: Part = { prefix: 'entry/', objects: 'entry/*' };
/** The key under which entries name persons, wrapped by KMS. No other: with a second one nobody would recognise whom the first has named. */
const SUBJECT_KEY: Part = { prefix: 'subject-key/', objects: 'subject-key/000001.json' };

/**
 * Where erasures are written down outside the database, so that a restored backup does not bring anybody back: a bucket that can only be added to. It is private, encrypted, by TLS only, versioned. Its policy refuses an object that would replace another, whoever writes it, so that a
 * number of the log is given once.
 */
export class ErasureLog extends Construct {
  readonly bucket: Bucket;

  constructor(scope: Construct, id: string, { lockFor, removalPolicy }: ErasureLogProps = {}) {
    super(scope, id);
    if (lockFor !== undefined && lockFor.toDays({ integral: false }) < 1) {
      throw new RangeError(`${this.node.path}: lockFor must be a day at least.`);
    }
    this.bucket = new Bucket(this, 'Bucket', {
      blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
      objectOwnership: ObjectOwnership.BUCKET_OWNER_ENFORCED,
      encryption: BucketEncryption.S3_MANAGED,
      enforceSSL: true,
      minimumTLSVersion: 1.2,
      versioned: true,
      removalPolicy: removalPolicy ?? RemovalPolicy.RETAIN,
      ...(lockFor !== undefined && { objectLockDefaultRetention: ObjectLockRetention.compliance(lockFor) }),
      lifecycleRules: [
        // Entries stay: each is small, and the next number follows from them.
        { id: 'leftovers', abortIncompleteMultipartUploadAfter: Duration.days(1) },
      ],
    });
    this.bucket.addToResourcePolicy(
      new PolicyStatement({
        sid: 'NeverReplaced',
        effect: Effect.DENY,
        principals: [new AnyPrincipal()],
        actions: ['s3:PutObject'],
        resources: [this.bucket.arnForObjects('*')],
        conditions: { Null: { 's3:if-none-match': 'true' }, Bool: { 's3:ObjectCreationOperation': 'true' } },
      }),
    );
    Validations.of(this.bucket).acknowledge({
      id: 'AwsSolutions-S1',
      reason:
        'Who reads the log is in CloudTrail data events, where an account wants that; access logs would be a second bucket with copies of nothing else.',
    });
  }

  /** Lets `fn` list and read what was erased, and neither add nor change anything. Functions that are given keys get it with them. */
  grantRead(fn: KeyUser): void {
    this.allow(fn, [ENTRIES], ['s3:GetObject']);
  }

  /**
   * Lets `fn` read the key under which entries name persons, which KMS must unwrap: who seals would otherwise make a new key for a person whom a restored
   * backup does not know. Functions that seal get it with their keys.
   */
  grantRecognise(fn: KeyUser): void {
    this.allow(fn, [SUBJECT_KEY], ['s3:GetObject']);
  }

  /** Lets `fn` write the next entry, and read all; it can neither change nor delete one. */
  grantErase(fn: KeyUser): void {
    this.allow(fn, [ENTRIES, SUBJECT_KEY], ['s3:GetObject', 's3:PutObject']);
  }

  /** The same without the key under which entries name persons: for who finishes what others have asked for, and need not recognise anybody. */
  grantFinish(fn: KeyUser): void {
    this.allow(fn, [ENTRIES], ['s3:GetObject', 's3:PutObject']);
  }

  private allow(fn: KeyUser, parts: readonly Part[], actions: string[]): void {
    fn.addEnvironment('SEALING_ERASURE_LOG', this.bucket.bucketName);
    fn.addToRolePolicy(
      new PolicyStatement({
        actions: ['s3:ListBucket'],
        resources: [this.bucket.bucketArn],
        conditions: { StringEquals: { 's3:prefix': parts.map(({ prefix }) => prefix) } },
      }),
    );
    const resources = parts.map(({ objects }) => this.bucket.arnForObjects(objects));
    fn.addToRolePolicy(new PolicyStatement({ actions, resources }));
    for (const { objects } of parts.filter((part) => part.objects.endsWith('*'))) {
      Validations.of(fn.role ?? fn).acknowledge({
        id: `AwsSolutions-IAM5[Resource::${arnInFindings(this.bucket, fn)}/${objects}]`,
        reason:
          'Entries of the log of erasures are objects with numbers for names, below one prefix of one bucket. Its policy and its lock keep them from being replaced or deleted.',
      });
    }
  }
}
