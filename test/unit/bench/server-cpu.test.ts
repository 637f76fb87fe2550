import { expect, it } from 'vitest';
import { cpuMeter } from '../../../bench/harness/server-cpu.ts';

it('counts what processes have from now on: all of one that joins, nothing of one that has left', () => {
  const cpu: Record<number, number> = { 1: 5, 2: 7 };
  const pids = new Set([1, 2]);
  const seconds = cpuMeter(pids, (pid) => cpu[pid] ?? Number.NaN);
  cpu[1] = 6;
  cpu[2] = 8;
  expect(seconds()).toBe(2);
  pids.delete(2);
  delete cpu[2];
  expect(seconds()).toBe(1);
  pids.add(3);
  cpu[3] = 4;
  expect(seconds()).toBe(5);
});
