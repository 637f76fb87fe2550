/** Stands for what is not shown, however long it is. */
const HIDDEN = '•••';
const letters = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

/** `Ada Lovelace` → `A••• L•••` */
export function maskName(name: string): string {
  return name
    .split(/\s+/u)
    .filter((word) => word !== '')
    .map((word) => `${firstLetter(word)}${HIDDEN}`)
    .join(' ');
}

/** `ada@lovelace.example` → `a•••@•••.example`: a domain may be the person's own. */
export function maskEmail(email: string): string {
  const domain = email.slice(email.lastIndexOf('@') + 1);
  const dot = domain.lastIndexOf('.');
  return `${firstLetter(email)}${HIDDEN}@${HIDDEN}${dot === -1 ? '' : domain.slice(dot)}`;
}

/** `TR330006100519786457841326` → `•••1326` */
export function maskIban(iban: string): string {
  return `${HIDDEN}${iban.slice(-4)}`;
}

/** The last two: four of ten digits would leave little to guess. */
export function maskTaxId(taxId: string): string {
  return `${HIDDEN}${taxId.slice(-2)}`;
}

/** Of free text nothing is harmless. */
export function maskText(): string {
  return HIDDEN;
}

function firstLetter(text: string): string {
  for (const { segment } of letters.segment(text)) return segment;
  return '';
}
