/** The curves of an experiment, from the points of its history. */

const MIN_WINDOW = 50;
const WINDOWS = 25;
const MAX_ARMS = 8;

/** The name of the curve of all other arms. */
export const OTHERS = "all others";

/** Return the positions of points on both axes: the decisions up to the end of each, and the time of its end. */
export function places(points) {
  let decisions = 0;
  return {
    decisions: points.map((point) => (decisions += point.decisions)),
    time: points.map((point) => Date.parse(point.to) / 1000),
  };
}

/** Return the mean reward of the bandit's own decisions and of the holdout, as moving averages. */
export const rewardCurves = (points) => [
  settled(points, averaged(points.map((point) => point.bandit_n), points.map((point) => point.bandit_n * (point.bandit_mean ?? 0)))),
  settled(points, averaged(points.map((point) => point.holdout_n), points.map((point) => point.holdout_n * (point.holdout_mean ?? 0)))),
];

/**
 * Return the lift from the start of the range to each point, with its interval; `of` is "lift" or "control". It is relative,
 * as a share of what it is measured against, unless rewards can be negative.
 */
export function liftCurve(points, of) {
  const isRelative = points.every((point) => !point[of] || point[of].relative !== null);
  const part = (lift, field) => (!lift || lift[field] === null ? null : isRelative ? (lift.baseline > 0 ? lift[field] / lift.baseline : null) : lift[field]);
  const values = (field) => settled(points, points.map((point) => part(point[of], field)));
  return { isRelative, values: values("difference"), band: [values("low"), values("high")] };
}

/** Return the range of an axis that shows a curve with its band and zero; the first bands are very wide and may be cut off. */
export function settledBounds({ values, band }) {
  const known = values.map((_, place) => place).filter((place) => values[place] !== null && band[0][place] !== null);
  const late = known.slice(Math.floor(known.length / 4));
  const ends = [0, ...known.map((place) => values[place]), ...late.flatMap((place) => band.map((end) => end[place]))];
  const margin = 0.06 * (Math.max(...ends) - Math.min(...ends) || 1);
  return [Math.min(...ends) - margin, Math.max(...ends) + margin];
}

/** Return the mean reward of one arm, with its interval, as points that are wide enough to be read. */
export function armCurve(points) {
  const values = (field) => settled(points, points.map((point) => point.arm?.[field] ?? null));
  return { values: values("reward_mean"), band: [values("low"), values("high")] };
}

/** Leave out the newest points whose rewards are not all known yet, unless there are hardly any others. */
function settled(points, values) {
  const last = points.findLastIndex((point) => point.complete);
  return last < 4 ? values : values.map((value, place) => (place > last ? null : value));
}

/** Return the arms that get a curve: those with the most decisions, in the order of the experiment, then the others. */
export function drawnArms(arms) {
  if (arms.length <= MAX_ARMS) return arms.map(({ arm }) => arm);
  const top = [...arms].sort((a, b) => b.decisions - a.decisions).slice(0, MAX_ARMS - 1);
  const drawn = new Set(top.map(({ arm }) => arm));
  return [...arms.map(({ arm }) => arm).filter((arm) => drawn.has(arm)), OTHERS];
}

/** Return a function that assigns colors to arms; an arm keeps its color while it is drawn. */
export function palette() {
  const taken = new Map();
  return (drawn) => {
    for (const arm of taken.keys()) if (!drawn.includes(arm)) taken.delete(arm);
    for (const arm of drawn) {
      if (arm === OTHERS || taken.has(arm)) continue;
      const used = new Set(taken.values());
      taken.set(arm, [...Array(MAX_ARMS).keys()].find((slot) => !used.has(slot)));
    }
    return (arm) => (taken.has(arm) ? `--arm-${taken.get(arm)}` : "--arm-others");
  };
}

/** Return the share of each of these arms, as moving averages. */
export function shareCurves(points, drawn) {
  const decisions = points.map((point) => point.decisions);
  const curves = drawn
    .filter((arm) => arm !== OTHERS)
    .map((arm) => averaged(decisions, points.map((point) => point.decisions * (point.shares[arm] ?? 0))));
  if (drawn.includes(OTHERS)) {
    curves.push(points.map((_, place) => Math.max(0, 1 - curves.reduce((sum, curve) => sum + (curve[place] ?? 0), 0))));
  }
  return curves;
}

function averaged(amounts, totals) {
  const least = Math.max(MIN_WINDOW, amounts.reduce((sum, n) => sum + n, 0) / WINDOWS);
  let from = 0;
  let amount = 0;
  let total = 0;
  return amounts.map((n, place) => {
    amount += n;
    total += totals[place];
    while (amount - amounts[from] >= least) {
      amount -= amounts[from];
      total -= totals[from];
      from += 1;
    }
    return amount >= MIN_WINDOW / 5 ? total / amount : null;
  });
}
