/** Money is a whole number of the currency's minor units (cents, kuruş): JavaScript and JSON keep it exact to 2^53. */
export const amountMinor = { type: 'integer', minimum: 1, maximum: 9_007_199_254_740_991 } as const;

/** Minor units where nothing is possible too, such as what is still owed. */
export const balanceMinor = { type: 'integer', minimum: 0, maximum: 9_007_199_254_740_991 } as const;

/** ISO 4217. */
export const currency = { type: 'string', pattern: '^[A-Z]{3}$' } as const;
