/** What stands in every benchmark unless it says otherwise. */
export const AGGREGATES = 10_000;
/** Length of the text in `data`: with its envelope an event has about 1.4 KB. */
export const BYTES = 1000;
