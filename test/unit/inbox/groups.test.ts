import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { groupRecords } from '../../../shared/inbox/groups.ts';
import { fifoRecord, standardRecord } from '../../support/sqs-batch.ts';

describe('groupRecords', () => {
  it('keeps every record once, and the order within its group', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 10 }), (groups) => {
        const records = groups.map((group, index) => fifoRecord(group, '{}', `${index}`));
        const grouped = groupRecords(records);
        expect(grouped.map(({ id }) => id)).toEqual([...new Set(groups)]);
        for (const { id, records: members } of grouped) {
          expect(members).toEqual(records.filter((record) => record.attributes.MessageGroupId === id));
        }
      }),
    );
  });

  it('makes each message of a standard queue a group of its own, also where the sender names groups', () => {
    const records = [standardRecord('{}', 'tenant'), standardRecord('{}', 'tenant'), standardRecord('{}')];
    expect(groupRecords(records).map((group) => group.records)).toEqual(records.map((record) => [record]));
  });

  it('makes nothing of an empty batch', () => {
    expect(groupRecords([])).toEqual([]);
  });
});
