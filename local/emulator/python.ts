import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { LocalCloudProblem } from '../problem.ts';

const run = promisify(execFile);

/** The oldest that is tried; the emulator itself would take 3.10. */
const OLDEST = [3, 11] as const;

/** `python3` first, since it is what people mean; the others because long-lived systems keep an old one under that name. */
const NAMES = ['python3', 'python3.14', 'python3.13', 'python3.12', 'python3.11', 'python'];

const PROBE = `
import glob, json, os, sys, sysconfig
try:
    import ensurepip, venv
    places = [os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"), sysconfig.get_config_var("WHEEL_PKG_DIR")]
    wheels = [wheel for place in places if place for wheel in glob.glob(os.path.join(place, "pip-*.whl"))]
    able = True
except ImportError:
    wheels, able = [], False
wheel = wheels[0] if wheels else None
print(json.dumps({"version": sys.version_info[:2], "venv": able, "executable": sys.executable, "pip": wheel}))
`;

export interface Python {
  readonly executable: string;
  readonly version: readonly [number, number];
  /** Whether it can make virtual environments. Debian and Ubuntu ship that part apart. */
  readonly venv: boolean;
  /** The pip that it carries for new environments, as one file; null where it is kept in another way. */
  readonly pip: string | null;
}

/**
 * A Python that can make the emulator's virtual environment.
 *
 * @throws LocalCloudProblem `LOCAL_PYTHON_MISSING`, `LOCAL_PYTHON_OLD`, `LOCAL_PYTHON_VENV`
 */
export async function findPython(probe: (name: string) => Promise<Python | undefined> = probePython): Promise<Python> {
  const found: Python[] = [];
  for (const name of NAMES) {
    const python = await probe(name);
    if (python === undefined) continue;
    if (python.venv && isNewEnough(python)) return python;
    found.push(python);
  }
  throw problem(found);
}

function problem(found: readonly Python[]): LocalCloudProblem {
  const usable = found.find(isNewEnough);
  if (usable !== undefined) {
    return new LocalCloudProblem(
      'LOCAL_PYTHON_VENV',
      `Python ${usable.version.join('.')} is here but cannot make virtual environments: install its venv part ` +
        '(Debian, Ubuntu: `sudo apt-get install python3-venv`) and run `npm start` again.',
    );
  }
  const [old] = found;
  const needed = OLDEST.join('.');
  if (old !== undefined) {
    return new LocalCloudProblem(
      'LOCAL_PYTHON_OLD',
      `The local AWS needs Python ${needed} or newer and only ${old.version.join('.')} was found: install a newer one ` +
        'beside it (Debian, Ubuntu: `sudo apt-get install python3.12 python3.12-venv`, macOS: `brew install python`).',
    );
  }
  return new LocalCloudProblem(
    'LOCAL_PYTHON_MISSING',
    `The local AWS needs Python ${needed} or newer and none was found: install it (Debian, Ubuntu: ` +
      '`sudo apt-get install python3 python3-venv`, macOS: `brew install python`) and run `npm start` again.',
  );
}

function isNewEnough({ version: [major, minor] }: Python): boolean {
  return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
}

async function probePython(name: string): Promise<Python | undefined> {
  try {
    const { stdout } = await run(name, ['-I', '-c', PROBE], { timeout: 20_000 });
    return JSON.parse(stdout) as Python;
  } catch {
    return undefined; // not installed, or a version manager's placeholder that names nothing
  }
}
