import list from './prices.json' with { type: 'json' };

export type PriceName = keyof typeof list.prices;

export interface Price {
  /** US dollars for `of` units. */
  readonly usd: number;
  readonly per: string;
  /** How many units one `per` is. */
  readonly of: number;
  /** Where AWS says it: look there before you rely on it. */
  readonly page: string;
  /** Where and when the number was read, in full or as far as that page says; null: nowhere, it is from memory and unverified. */
  readonly seen: { readonly at: string; readonly on: string } | null;
}

export type Prices = Readonly<Record<PriceName, Price>>;

/** List prices, without free tiers, discounts and tax, of this region. */
export const PRICE_REGION: string = list.region;
export const prices: Prices = list.prices;

/** How far a price can be trusted: read on AWS's own page, in somebody else's text, or nowhere. */
export function standingOf({ seen }: Price): 'aws' | 'second-hand' | 'unverified' {
  if (seen === null) return 'unverified';
  const { hostname } = new URL(seen.at);
  return hostname === 'aws.amazon.com' || hostname === 'docs.aws.amazon.com' ? 'aws' : 'second-hand';
}
