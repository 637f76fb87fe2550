import { createInterface } from 'node:readline/promises';

/** Who gives up answers nothing: Ctrl-C and Ctrl-D are a no, and no failure. */
export async function ask(
  question: string,
  input: NodeJS.ReadableStream = process.stdin,
  output: NodeJS.WritableStream = process.stderr,
): Promise<string> {
  const lines = createInterface({ input, output, terminal: true });
  try {
    return await lines.question(question);
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ABORT_ERR') throw error;
    output.write('\n');
    return '';
  } finally {
    lines.close();
  }
}
