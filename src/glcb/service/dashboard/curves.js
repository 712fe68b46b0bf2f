/** Curves from blocks of decisions: averages over as much of the past as it takes to say something. */

const LEAST = 50;
const WINDOWS = 25;
const MOST_ARMS = 8;

/** Stands for the arms that have no curve of their own. */
export const OTHERS = "all others";

/** Return the places of blocks on both axes: decisions up to the end of each, and the second it ended. */
export function places(blocks) {
  let decisions = 0;
  return {
    decisions: blocks.map((block) => (decisions += block.decisions)),
    time: blocks.map((block) => Date.parse(block.to) / 1000),
  };
}

/** Return the mean reward of the bandit's own decisions and of the hold-out. */
export const rewardCurves = (blocks) => [
  averaged(blocks.map((block) => block.bandit_n), blocks.map((block) => block.bandit_n * (block.bandit_mean ?? 0))),
  averaged(blocks.map((block) => block.holdout_n), blocks.map((block) => block.holdout_n * (block.holdout_mean ?? 0))),
];

/** Return the arms that get a curve, the most played ones, in the order of the experiment, and perhaps the others. */
export function drawnArms(arms) {
  if (arms.length <= MOST_ARMS) return arms.map(({ arm }) => arm);
  const most = [...arms].sort((a, b) => b.decisions - a.decisions).slice(0, MOST_ARMS - 1);
  const drawn = new Set(most.map(({ arm }) => arm));
  return [...arms.map(({ arm }) => arm).filter((arm) => drawn.has(arm)), OTHERS];
}

/** Return a function that gives each arm with a curve a color of its own, the same for as long as it is drawn. */
export function palette() {
  const taken = new Map();
  return (drawn) => {
    for (const arm of taken.keys()) if (!drawn.includes(arm)) taken.delete(arm);
    for (const arm of drawn) {
      if (arm === OTHERS || taken.has(arm)) continue;
      const used = new Set(taken.values());
      taken.set(arm, [...Array(MOST_ARMS).keys()].find((slot) => !used.has(slot)));
    }
    return (arm) => (taken.has(arm) ? `--arm-${taken.get(arm)}` : "--arm-others");
  };
}

/** Return the share of each of these arms. */
export function shareCurves(blocks, drawn) {
  const decisions = blocks.map((block) => block.decisions);
  const curves = drawn
    .filter((arm) => arm !== OTHERS)
    .map((arm) => averaged(decisions, blocks.map((block) => block.decisions * (block.shares[arm] ?? 0))));
  if (drawn.includes(OTHERS)) {
    curves.push(blocks.map((_, place) => Math.max(0, 1 - curves.reduce((sum, curve) => sum + (curve[place] ?? 0), 0))));
  }
  return curves;
}

function averaged(amounts, totals) {
  const least = Math.max(LEAST, amounts.reduce((sum, n) => sum + n, 0) / WINDOWS);
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
    return amount >= LEAST / 5 ? total / amount : null;
  });
}
