import { join } from 'node:path';

const LOCAL = join(import.meta.dirname, '..');

/** A set of Python packages that gets an environment of its own. */
export interface PythonPackages {
  /** For people. */
  readonly name: string;
  /** Begins the environment's directory. */
  readonly key: string;
  /** The lock file: exact versions with hashes. */
  readonly lock: string;
  /** A lock file that holds uv, for sets that take pip minutes. */
  readonly installer?: string;
  /** Some packages exist as source only and are built where they are installed. */
  readonly sources?: true;
}

/** The local AWS of `npm start` and of the end-to-end tests. */
export const MINISTACK: PythonPackages = {
  name: 'MiniStack',
  key: 'ministack',
  lock: join(LOCAL, 'ministack-requirements.txt'),
};

/** The AWS of the contract tests: its errors are those of AWS. 310 MB. */
export const LOCALSTACK: PythonPackages = {
  name: 'LocalStack',
  key: 'localstack',
  lock: join(LOCAL, 'localstack-requirements.txt'),
  installer: join(LOCAL, 'uv-requirements.txt'),
  sources: true,
};

/** The linter of the templates. 180 MB. */
export const CFN_LINT: PythonPackages = {
  name: 'cfn-lint',
  key: 'cfn-lint',
  lock: join(LOCAL, 'cfn-lint-requirements.txt'),
  installer: join(LOCAL, 'uv-requirements.txt'),
};
