import fc from 'fast-check';

/** Any code point, half surrogate pairs and noncharacters included. fast-check's own 'binary' needs 4 s to set up. */
const unit = fc
  .oneof(
    fc.integer({ min: 0x20, max: 0x7e }),
    fc.integer({ min: 0, max: 0xffff }),
    fc.integer({ min: 0, max: 0x10ffff }),
  )
  .map((code) => String.fromCodePoint(code));

/** Text that holds anything, of up to 200 code points. */
export const anyText = fc.string({ unit, maxLength: 200 });
