import { describe, expect, it } from 'vitest';
import { defineClasses, defineErasable, type ErasableColumns } from '../../../../shared/sealing/index.ts';

describe('classes', () => {
  it('are erased on request, or after days', () => {
    const classes = { contact: { erase: 'onRequest' }, tax: { erase: { after: 3653 } } } as const;
    expect(defineClasses(classes)).toBe(classes);
  });

  it.each([
    ['no class', {}],
    ['a name that no class has', { Contact: { erase: 'onRequest' } }],
    ['no rule', { contact: {} }],
    ['another word', { contact: { erase: 'never' } }],
    ['no days', { tax: { erase: { after: 0 } } }],
    ['parts of days', { tax: { erase: { after: 1.5 } } }],
    ['days as text', { tax: { erase: { after: '30' } } }],
    ['more than a hundred years', { tax: { erase: { after: 36_526 } } }],
  ])('are refused with %s', (_, classes) => {
    expect(() => defineClasses(classes as never)).toThrow(expect.objectContaining({ code: 'ERASURE_DECLARATION' }));
  });
});

describe('columns that are cleared', () => {
  const sound: ErasableColumns = {
    table: 'sample.customer',
    key: 'id',
    kind: 'customer',
    subject: 'id',
    class: 'contact',
    columns: ['name', 'email_index'],
  };

  it('are named as PostgreSQL names them', () => {
    expect(defineErasable([sound])).toEqual([sound]);
  });

  it.each([
    ['a table without schema', { table: 'customer' }],
    ['SQL for a table', { table: 'sample.customer; drop table x' }],
    ['SQL for a column', { columns: ['name" = null, "other'] }],
    ['SQL for the key', { key: 'id) or (true' }],
    ['upper-case letters', { subject: 'customerId' }],
    ['no column', { columns: [] }],
    ['the key among the columns', { columns: ['id'] }],
    ['no kind', { kind: '' }],
    ['a class that is none', { class: 'Contact' }],
    ['a line break behind the name', { columns: ['name\n'] }],
  ])('are refused with %s', (_, fault) => {
    expect(() => defineErasable([{ ...sound, ...fault }])).toThrow(
      expect.objectContaining({ code: 'ERASURE_DECLARATION' }),
    );
  });
});
