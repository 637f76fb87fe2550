import { isUtf8 } from 'node:buffer';
import { SealingError, SealingRefusedError } from './errors.ts';
import { inexactness } from './exact-json.ts';

/** Of the JSON text. Longer text is no field of a person; it also bounds the work that a hostile value can cause. */
export const MAX_JSON_BYTES = 262_144;

const HEADER_BYTES = 5;
const BLOCK_BYTES = 16;
const MIN_BYTES = 32;

const TYPES = { string: 1, number: 2, boolean: 3, object: 4, array: 5 } as const;

/** How long the plaintext of a JSON text of so many bytes is. */
export function paddedBytes(jsonBytes: number): number {
  return Math.max(MIN_BYTES, Math.ceil((HEADER_BYTES + jsonBytes) / BLOCK_BYTES) * BLOCK_BYTES);
}

/**
 * Type byte ‖ u32be length ‖ JSON text ‖ zeros to a multiple of 16, at least 32: so that the length of what is sealed says
 * little of the value.
 *
 * @throws SealingRefusedError for what would not come back as it is.
 */
export function encodePlaintext(value: unknown): Buffer {
  if (value === null) throw new SealingRefusedError('is null, which stays clear');
  const fault = inexactness(value);
  if (fault !== null) throw new SealingRefusedError(fault);
  const json = JSON.stringify(value);
  const length = Buffer.byteLength(json);
  if (length > MAX_JSON_BYTES) {
    throw new SealingRefusedError(`has ${length} bytes as JSON, at most ${MAX_JSON_BYTES} can be sealed`);
  }
  const plaintext = Buffer.alloc(paddedBytes(length));
  plaintext[0] = typeByte(value);
  plaintext.writeUInt32BE(length, 1);
  plaintext.write(json, HEADER_BYTES);
  return plaintext;
}

/**
 * The value in an authentic plaintext.
 *
 * @throws SealingError (`SEALING_MALFORMED`): whoever held the key wrote something else.
 */
export function decodePlaintext(plaintext: Buffer): unknown {
  const length = plaintext.readUInt32BE(1);
  const end = HEADER_BYTES + length;
  if (length > MAX_JSON_BYTES || plaintext.length !== paddedBytes(length)) throw malformed('its length is wrong');
  for (let index = end; index < plaintext.length; index += 1) {
    if (plaintext[index] !== 0) throw malformed('its padding is not zero');
  }
  if (!isUtf8(plaintext.subarray(HEADER_BYTES, end))) throw malformed('it is not UTF-8');
  let value: unknown;
  try {
    value = JSON.parse(plaintext.toString('utf8', HEADER_BYTES, end));
  } catch {
    throw malformed('it is not JSON');
  }
  if (value === null || typeByte(value) !== plaintext[0]) throw malformed('its type is another');
  const fault = inexactness(value);
  if (fault !== null) throw malformed(`it ${fault}`);
  return value;
}

function typeByte(value: unknown): number {
  return Array.isArray(value) ? TYPES.array : TYPES[typeof value as keyof typeof TYPES];
}

function malformed(reason: string): SealingError {
  return new SealingError('SEALING_MALFORMED', `What is sealed is no value of this format: ${reason}.`);
}
