/** Moving averages over the blocks of an experiment's history. */

const MIN_WINDOW = 50;
const WINDOWS = 25;
const MAX_ARMS = 8;

/** The name of the curve of all other arms. */
export const OTHERS = "all others";

/** Return the positions of blocks on both axes: the decisions up to the end of each, and the time of its end. */
export function places(blocks) {
  let decisions = 0;
  return {
    decisions: blocks.map((block) => (decisions += block.decisions)),
    time: blocks.map((block) => Date.parse(block.to) / 1000),
  };
}

/** Return the mean reward of the bandit's own decisions and of the holdout. */
export const rewardCurves = (blocks) => [
  averaged(blocks.map((block) => block.bandit_n), blocks.map((block) => block.bandit_n * (block.bandit_mean ?? 0))),
  averaged(blocks.map((block) => block.holdout_n), blocks.map((block) => block.holdout_n * (block.holdout_mean ?? 0))),
];

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
