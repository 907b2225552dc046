// Differences of means over seeds. Pure functions; tested against the Python package in a browser.

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

// Squared standard error of a mean and the degrees of freedom behind it; undefined for a single value, unless it is fixed.
function meanError(values, fixed) {
  if (fixed && values.length === 1) return { variance: 0, degrees: Infinity };
  if (values.length < 2) return undefined;
  const centre = mean(values);
  const squares = values.reduce((sum, value) => sum + (value - centre) ** 2, 0);
  return { variance: squares / (values.length - 1) / values.length, degrees: values.length - 1 };
}

// pairs: one for each task, {a, b, fixedA, fixedB} with the seeds' values. The mean over the tasks of the differences,
// and half its interval with Satterthwaite's degrees of freedom, which for one task are Welch's; undefined without seeds.
function difference(pairs, level) {
  const value = mean(pairs.map((pair) => mean(pair.a) - mean(pair.b)));
  const errors = pairs.flatMap((pair) => [meanError(pair.a, pair.fixedA), meanError(pair.b, pair.fixedB)]);
  if (errors.includes(undefined)) return { value, half: undefined };
  const variance = errors.reduce((sum, error) => sum + error.variance, 0);
  if (variance === 0) return { value, half: errors.every((error) => error.degrees === Infinity) ? undefined : 0 };
  const shares = errors.reduce((sum, error) => sum + (error.variance / variance) ** 2 / error.degrees, 0);
  return { value, half: (studentQuantile((1 + level) / 2, 1 / shares) * Math.sqrt(variance)) / pairs.length };
}

// The t below which Student's distribution has `probability`, from 0.5 on. With t = √ν·tan θ the density is c·cos(θ)^(ν-1),
// which falls in θ, so that Newton's steps from 0 approach the root from below.
function studentQuantile(probability, degrees) {
  const constant = Math.exp(logGamma((degrees + 1) / 2) - logGamma(degrees / 2)) / Math.sqrt(Math.PI);
  const density = (angle) => constant * Math.cos(angle) ** (degrees - 1);
  let angle = 0;
  for (let i = 0; i < 100; i++) {
    const step = (probability - 0.5 - simpson(density, angle)) / density(angle);
    angle += step;
    if (Math.abs(step) <= 1e-13 * angle) break;
  }
  return Math.sqrt(degrees) * Math.tan(angle);
}

// The integral of a smooth function from 0 to `end` by Simpson's rule.
function simpson(f, end) {
  const parts = 400;
  let sum = f(0) + f(end);
  for (let i = 1; i < parts; i++) sum += (i % 2 ? 4 : 2) * f((end * i) / parts);
  return (sum * end) / parts / 3;
}

// log Γ(x) for x > 0: Stirling's series, after shifting x to where it is exact to the last digits.
function logGamma(x) {
  let shift = 0;
  while (x < 12) shift -= Math.log(x++);
  const inverse = 1 / (x * x);
  const series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))) / x;
  return shift + (x - 0.5) * Math.log(x) - x + Math.log(2 * Math.PI) / 2 + series;
}
