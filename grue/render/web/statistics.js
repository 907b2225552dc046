// Differences of means over seeds. Pure functions, tested against the Python package in a browser.

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

// Squared standard error of a mean and its degrees of freedom; undefined for a single value, unless it is fixed.
function meanError(values, fixed) {
  if (fixed && values.length === 1) return { variance: 0, degrees: Infinity };
  if (values.length < 2) return undefined;
  const centre = mean(values);
  const squares = values.reduce((sum, value) => sum + (value - centre) ** 2, 0);
  return { variance: squares / (values.length - 1) / values.length, degrees: values.length - 1 };
}

// pairs: one for each task, {a, b, fixedA, fixedB, paired} with the seeds' values, which are pairs if both began from the
// same weights. Returns the mean over the tasks of the differences, and half its interval with Satterthwaite's degrees of
// freedom, which for one task are Welch's, or those of the paired t test; the half width is undefined without seeds.
function difference(pairs, quantiles) {
  const value = mean(pairs.map((pair) => mean(pair.a) - mean(pair.b)));
  const errors = pairs.flatMap(({ a, b, fixedA, fixedB, paired }) =>
    paired ? [meanError(a.map((one, seed) => one - b[seed]))] : [meanError(a, fixedA), meanError(b, fixedB)],
  );
  if (errors.includes(undefined)) return { value, half: undefined };
  const variance = errors.reduce((sum, error) => sum + error.variance, 0);
  if (variance === 0) return { value, half: errors.every((error) => error.degrees === Infinity) ? undefined : 0 };
  const shares = errors.reduce((sum, error) => sum + (error.variance / variance) ** 2 / error.degrees, 0);
  return { value, half: (studentQuantile(quantiles, shares) * Math.sqrt(variance)) / pairs.length };
}

// Student's t at 1 / `inverse` degrees of freedom, between the values of the table that `embed.py` made at even steps of
// 1 / degrees, from 0 to 1.
function studentQuantile(quantiles, inverse) {
  const place = inverse * (quantiles.length - 1);
  const below = Math.min(Math.floor(place), quantiles.length - 2);
  return quantiles[below] + (place - below) * (quantiles[below + 1] - quantiles[below]);
}
