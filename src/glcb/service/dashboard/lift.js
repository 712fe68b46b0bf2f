/** Lift over the control or over random assignment, in words and as an interval around zero. */

import { draw, h, mark } from "./dom.js";
import { clock, many, percent, signed } from "./format.js";

/** A lift without any rewards. */
const NO_LIFT = { n: 0, since: null, decisions_missing: null, difference: null, low: null, high: null, fixed_low: null, fixed_high: null, relative: null, extra_rewards: null, confidence: 0.95 };

/**
 * Return the lift that answers whether the experiment pays, and the other one or null. The first is that over the control
 * once a decision compares with it, until then over random. In shadow mode there is none.
 */
export function bothLifts({ lift, control_lift, control }, { hasControl, isShadow }) {
  const measured = control_lift ?? control;
  const overControl = { ...NO_LIFT, ...measured, isShadow, over: "the control", base: measured?.control ?? measured?.baseline };
  const overRandom = { ...NO_LIFT, ...lift, over: "random", base: lift?.random ?? lift?.baseline };
  if (isShadow) return [overControl, overRandom.n ? overRandom : null];
  if (overControl.n || (hasControl && !overRandom.n)) return [overControl, overRandom.n ? overRandom : null];
  return [overRandom, hasControl ? overControl : null];
}

/** Return the lift that answers whether the experiment pays. */
export const mainLift = (measured, settings) => bothLifts(measured, settings)[0];

/** Return what the settings of an experiment say about its lift. */
export const comparison = ({ control, shadow }) => ({ hasControl: Boolean(control || shadow), isShadow: Boolean(shadow) });

/** Return an element for an interval and a function that draws it. */
export function liftFigure() {
  const figure = h("span", { class: "interval", "aria-hidden": "true" }, h("span", { class: "range" }), h("span", { class: "point" }));
  return [
    figure,
    ({ low, high, difference }, reach = Math.max(Math.abs(low), Math.abs(high)) || 1) => {
      figure.hidden = low === null || low === undefined;
      if (figure.hidden) return;
      const place = (x) => `${50 + 46 * Math.max(-1, Math.min(1, x / reach))}%`;
      draw(figure, { low: place(low), high: place(high), point: place(difference) });
      mark(figure, "data-verdict", verdict({ low, high }));
    },
  ];
}

/** Whether the bandit is better or worse, or the interval contains zero. */
export const verdict = ({ low, high }) => (low === null || low === undefined ? "open" : low > 0 ? "better" : high < 0 ? "worse" : "open");

/** Describe in words whether a lift is significant. */
export function liftInWords(lift) {
  if (lift.difference === null || lift.difference === undefined) {
    if (lift.isShadow) return "No lift in shadow mode: everybody is served the control.";
    if (lift.over === "the control") return "No decision compares the bandit with the control yet.";
    return lift.bandit && lift.bandit.n + lift.holdout.n ? "The lift needs a holdout or exploration." : "No rewards yet.";
  }
  return {
    better: `Better than ${lift.over}.`,
    worse: `Worse than ${lift.over}: see the health checks.`,
    open: "No significant difference yet.",
  }[verdict(lift)];
}

/** Say about how many decisions are missing until the interval excludes zero. */
export function missingInWords({ difference, low, high, decisions_missing: missing }) {
  if (verdict({ low, high }) !== "open" || difference === null || difference === undefined || low === null || low === undefined) return "";
  if (missing === null || missing === undefined) return "More decisions than can be said are missing until it is certain.";
  return `About ${many(missing, "more decision")} until it is certain, if the lift stays as it is.`;
}

/** From 12,345 decisions since 12 Nov, 10:00 */
export const sinceInWords = ({ n, since }) => (n && since ? `from ${many(n, "decision")} since ${clock(since)}` : "");

/** +102%, or the difference if there is no relative lift. */
export const mainNumber = (lift, rewards) => (hasRelative(lift) ? signed(percent(lift.relative, Math.abs(lift.relative) < 0.1 ? 1 : 0)) : rewards.difference(lift.difference));

/** 487 rewards gained, or lost, in the unit of the experiment. */
export const gained = ({ extra_rewards }, rewards) => (extra_rewards === null || extra_rewards === undefined ? "" : rewards.gained(extra_rewards));

/** 95% interval +79% to +128%. */
export function intervalInWords(lift, rewards) {
  if (lift.low === null || lift.low === undefined) return "";
  const ends = hasRelative(lift) && lift.base > 0 ? [lift.low, lift.high].map((x) => signed(percent(x / lift.base, 0))) : [lift.low, lift.high].map(rewards.difference);
  return `${percent(lift.confidence, 0)} interval ${ends[0]} to ${ends[1]}`;
}

/** +26.9 pts (+20.4 to +33.2). */
export const pointsInWords = (lift, rewards) =>
  lift.difference === null || lift.difference === undefined ? "" : `${rewards.difference(lift.difference)} (${rewards.difference(lift.low)} to ${rewards.difference(lift.high)})`;

/** Describe the interval for those who look only once. */
export const fixedHorizonInWords = (lift, rewards) =>
  lift.difference === null || lift.difference === undefined
    ? ""
    : `Fixed-horizon interval (one planned look): ${rewards.difference(lift.fixed_low)} to ${rewards.difference(lift.fixed_high)}.`;

const hasRelative = ({ relative }) => relative !== null && relative !== undefined;

/** Return an element that shows an interval on the scale of all arms, and a function that draws it. */
export function meanFigure() {
  const figure = h("span", { class: "interval mean", "aria-hidden": "true" }, h("span", { class: "range" }), h("span", { class: "point" }));
  return [
    figure,
    ({ low, high, reward_mean: mean }, [least, most]) => {
      figure.hidden = low === null || low === undefined || most <= least;
      if (figure.hidden) return;
      const place = (x) => `${(100 * (x - least)) / (most - least)}%`;
      draw(figure, { low: place(low), high: place(high), point: place(mean) });
    },
  ];
}

/** Return the text of an interval of a mean reward. */
export const meanInterval = ({ low, high }, rewards) => (low === null || low === undefined ? "" : `${rewards.value(low)} to ${rewards.value(high)}`);
