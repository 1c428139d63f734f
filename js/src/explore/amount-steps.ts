// Amounts in a few steps that a legend can name, each with about as many of them as another one. Pure.

/** The largest amount of each of at most `count` steps; of few different amounts each is one. */
export const boundsOf = (amounts: readonly number[], count: number): number[] => {
  const sorted = [...amounts].sort((a, b) => a - b);
  return [...new Set(Array.from({ length: count }, (_, k) => sorted[Math.ceil(((k + 1) * sorted.length) / count) - 1]))].filter((each) => each !== undefined);
};

/** Which of `count` looks the step at `place` of `of` steps has: where there are fewer steps, they are further apart. */
export const lookOfStep = (place: number, of: number, count: number): number => (of < 2 ? count - 1 : Math.round((place * (count - 1)) / (of - 1)));

/** The step that an amount falls into. */
export const placeIn = (bounds: readonly number[], amount: number): number => {
  const place = bounds.findIndex((bound) => amount <= bound);
  return place < 0 ? bounds.length - 1 : place;
};
