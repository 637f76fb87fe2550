import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { AnyPrincipal, Effect, PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { Construct, type IConstruct } from 'constructs';
import type { ErasureLog } from './erasure-log.ts';
import { denyDeletion } from './key-deletion.ts';
import type { KeyUser } from './key-user.ts';

/** The KMS key of a vault, and who may do what with it for which classes of data. */
export interface ISealingKeys extends IConstruct {
  /** Bound to every key in the vault. */
  readonly vaultName: string;
  /** Wraps the vault's branch and index keys. */
  readonly key: IKey;
  /** Where erasures are written down; undefined: nowhere, so a restored backup would bring erased persons back. */
  readonly erasureLog: ErasureLog | undefined;
  /**
   * Lets `fn` open values of these classes: `kms:Decrypt` for their branch keys. Says nothing of the database: declare classes with
   * `OutboxDatabase.connect`, which gives both.
   */
  grantOpen(fn: KeyUser, classes: readonly string[]): void;
  /**
   * Lets `fn` seal values of these classes, and open them: `kms:GenerateDataKey` besides, for a class's first branch key. Where there is a log of erasures it can tell
   * whether a person is in it.
   */
  grantSeal(fn: KeyUser, classes: readonly string[]): void;
  /** Lets `fn` compute blind indexes over values of these classes: `kms:Decrypt` and `kms:GenerateDataKey` for their index keys. */
  grantIndex(fn: KeyUser, classes: readonly string[]): void;
  /** Lets `fn` make new versions of the branch and index keys of these classes and wrap old ones anew: `kms:Encrypt` besides. It can open them, too. */
  grantRotate(fn: KeyUser, classes: readonly string[]): void;
  /**
   * Lets `fn` write erasures down in the log, and use the key under which the log names persons. It opens nothing that is sealed.
   *
   * @throws RangeError where there is no log
   */
  grantErase(fn: KeyUser): void;
  /** Lets `fn` finish erasures that others have asked for: it adds to the log of erasures, and has no key that recognises persons in it. */
  grantFinish(fn: KeyUser): void;
}

export interface SealingKeysProps {
  /** Name of the vault, `[a-z][a-z0-9-]{0,62}`. Every key is bound to it: it never changes. */
  readonly vaultName: string;
  /**
   * ARN of the role or user that alone may disable the key or schedule its deletion. Default: nobody; whoever must, changes the key's policy first, and that is
   * told as well (`KeyAtRisk`).
   */
  readonly breakGlassArn?: string | undefined;
  /** False: the key may be deleted like any other, as a stage needs that is thrown away with its stack. Default: true. */
  readonly blockDeletion?: boolean;
  /**
   * A key that can have replicas in other regions, for when this region is lost. Decided once: KMS cannot change it, and CloudFormation refuses the
   * update. Default: false.
   */
  readonly multiRegion?: boolean;
  /** How often KMS makes new key material, 90 to 2,560 days; old material still opens. Default: 365 days. */
  readonly rotationPeriod?: Duration;
  /** How long a deletion can be taken back, 7 to 30 days. Default: 30 days. */
  readonly pendingWindow?: Duration;
  /** What becomes of the key when it leaves the stack. Default: retained, for without it nothing can be opened. */
  readonly removalPolicy?: RemovalPolicy;
  /** Keys that wrapped branch keys of this vault before and still may: readers go on with them until rotation has wrapped everything anew. Default: none. */
  readonly previousKeys?: readonly IKey[];
  /** Default: none. */
  readonly erasureLog?: ErasureLog | undefined;
}

/** A key that exists already, in this stack or another. */
export interface SealingKeysAttributes {
  /** As the vault was created with. */
  readonly vaultName: string;
  /** Symmetric, for encryption. Its policy must let the account's IAM policies decide. */
  readonly key: IKey;
  /** As of a new one. */
  readonly previousKeys?: readonly IKey[];
  readonly erasureLog?: ErasureLog | undefined;
}

const VAULT = /^[a-z][a-z0-9-]{0,62}$/;
const CLASS = /^[a-z][a-z0-9-]{0,15}$/;

/** Whatever uses key material. */
const USE = ['kms:Decrypt', 'kms:Encrypt', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'];

/** One vault for a function: its environment names one. */
const given = new WeakMap<KeyUser, ISealingKeys>();

abstract class SealingKeysBase extends Construct implements ISealingKeys {
  abstract readonly key: IKey;
  readonly vaultName: string;
  readonly erasureLog: ErasureLog | undefined;
  private readonly previousKeys: readonly IKey[];

  constructor(
    scope: Construct,
    id: string,
    { vaultName, previousKeys = [], erasureLog }: Omit<SealingKeysAttributes, 'key'>,
  ) {
    super(scope, id);
    if (!VAULT.test(vaultName)) {
      throw new RangeError(
        `${this.node.path}: vaultName "${vaultName}" must be 1-63 of a-z 0-9 -, with a letter first. Every key is bound to it: choose it once.`,
      );
    }
    this.vaultName = vaultName;
    this.previousKeys = previousKeys;
    this.erasureLog = erasureLog;
  }

  grantOpen(fn: KeyUser, classes: readonly string[]): void {
    this.allow(fn, ['kms:Decrypt'], 'branch', this.valid(classes));
  }

  grantSeal(fn: KeyUser, classes: readonly string[]): void {
    this.allow(fn, ['kms:Decrypt', 'kms:GenerateDataKey'], 'branch', this.valid(classes));
    if (this.erasureLog === undefined) return;
    this.allow(fn, ['kms:Decrypt'], 'erasure', 'erasure');
    this.erasureLog.grantRecognise(fn);
  }

  grantIndex(fn: KeyUser, classes: readonly string[]): void {
    this.allow(fn, ['kms:Decrypt', 'kms:GenerateDataKey'], 'index', this.valid(classes));
  }

  grantRotate(fn: KeyUser, classes: readonly string[]): void {
    this.allow(fn, ['kms:Decrypt', 'kms:Encrypt', 'kms:GenerateDataKey'], ['branch', 'index'], this.valid(classes));
  }

  grantErase(fn: KeyUser): void {
    const log = this.neededLog();
    this.allow(fn, ['kms:Decrypt', 'kms:GenerateDataKey'], 'erasure', 'erasure');
    log.grantErase(fn);
  }

  grantFinish(fn: KeyUser): void {
    this.neededLog().grantFinish(fn);
    this.setEnvironment(fn);
  }

  private neededLog(): ErasureLog {
    if (this.erasureLog !== undefined) return this.erasureLog;
    throw new RangeError(
      `${this.node.path}: without an erasureLog a restored backup would bring erased persons back. Give the keys an ErasureLog.`,
    );
  }

  /** As `shared/sealing` asks KMS: each call's context is `{ vault, class, version, purpose }`. */
  private allow(fn: KeyUser, actions: string[], purpose: string | string[], classes: string | string[]): void {
    this.setEnvironment(fn);
    const conditions = {
      StringEquals: {
        'kms:EncryptionContext:vault': this.vaultName,
        'kms:EncryptionContext:purpose': purpose,
        'kms:EncryptionContext:class': classes,
      },
    };
    fn.addToRolePolicy(new PolicyStatement({ actions, resources: [this.key.keyArn], conditions }));
    if (this.previousKeys.length === 0) return;
    const resources = this.previousKeys.map(({ keyArn }) => keyArn);
    fn.addToRolePolicy(new PolicyStatement({ actions: ['kms:Decrypt'], resources, conditions }));
  }

  private setEnvironment(fn: KeyUser): void {
    const before = given.get(fn);
    if (before === this) return;
    if (before !== undefined) {
      throw new RangeError(
        `${this.node.path}: ${fn.node.path} has keys of ${before.node.path} already, and a function works with one vault. ` +
          'Put the classes into one vault, or split the function.',
      );
    }
    given.set(fn, this);
    fn.addEnvironment('SEALING_VAULT', this.vaultName);
    fn.addEnvironment('SEALING_KEY_ARN', this.key.keyArn);
    this.erasureLog?.grantRead(fn);
  }

  private valid(classes: readonly string[]): string[] {
    const wrong = classes.find((name) => !CLASS.test(name));
    if (classes.length === 0 || wrong !== undefined) {
      throw new RangeError(
        `${this.node.path}: ${wrong === undefined ? 'no class is given' : `"${wrong}" is no class of data`}. ` +
          'Name those of the catalogue: 1-16 of a-z 0-9 -, with a letter first.',
      );
    }
    return [...new Set(classes)].toSorted();
  }
}

/**
 * The KMS key of a vault. It wraps branch keys, each for a class of data, and says which function may use which: every call carries the vault's name and the class in
 * its encryption context, and the policies ask for them.
 *
 * The key rotates by itself, may not be used for anything but its vault, has no grants, and can be neither disabled nor deleted but by the principal that is named for it.
 *
 * @example
 * const keys = new SealingKeys(this, 'Keys', { vaultName: 'invoices', breakGlassArn });
 * database.connect(fn, { user: 'shop', roles: ['shop_writer', 'outbox_writer'], sealing: { keys, seals: ['contact'] } });
 */
export class SealingKeys extends SealingKeysBase {
  readonly key: Key;

  /** An existing key, with the grants of a new one. */
  static fromKey(scope: Construct, id: string, attributes: SealingKeysAttributes): ISealingKeys {
    class Existing extends SealingKeysBase {
      readonly key = attributes.key;
    }
    return new Existing(scope, id, attributes);
  }

  constructor(scope: Construct, id: string, props: SealingKeysProps) {
    super(scope, id, props);
    const { vaultName, breakGlassArn, blockDeletion = true } = props;
    this.requireDays('rotationPeriod', props.rotationPeriod, 90, 2560);
    this.requireDays('pendingWindow', props.pendingWindow, 7, 30);
    if (breakGlassArn !== undefined && !blockDeletion) {
      throw new RangeError(
        `${this.node.path}: breakGlassArn has no effect with blockDeletion: false. Leave one of them out.`,
      );
    }
    this.key = new Key(this, 'Key', {
      description: `Wraps the branch keys of the vault ${vaultName}: without it nothing sealed can be opened`,
      alias: `sealed-outbox/${vaultName}`,
      enableKeyRotation: true,
      rotationPeriod: props.rotationPeriod ?? Duration.days(365),
      pendingWindow: props.pendingWindow ?? Duration.days(30),
      multiRegion: props.multiRegion ?? false,
      removalPolicy: props.removalPolicy ?? RemovalPolicy.RETAIN,
    });
    this.deny('ForItsVaultOnly', USE, { StringNotEquals: { 'kms:EncryptionContext:vault': vaultName } });
    // A grant would go past the conditions of every role.
    this.deny('NoGrants', ['kms:CreateGrant']);
    if (blockDeletion) denyDeletion(this.key, this.node.path, breakGlassArn);
  }

  private deny(sid: string, actions: string[], conditions: Record<string, unknown> = {}): void {
    const principals = [new AnyPrincipal()];
    this.key.addToResourcePolicy(
      new PolicyStatement({ sid, effect: Effect.DENY, principals, actions, resources: ['*'], conditions }),
    );
  }

  private requireDays(name: string, duration: Duration | undefined, least: number, most: number): void {
    if (duration === undefined || duration.isUnresolved()) return;
    const days = duration.toDays({ integral: false });
    if (Number.isInteger(days) && days >= least && days <= most) return;
    throw new RangeError(`${this.node.path}: ${name} must be ${least} to ${most} whole days, not ${days}.`);
  }
}
