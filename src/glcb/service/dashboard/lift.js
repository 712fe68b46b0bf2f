/** Lift over random assignment: its confidence interval and its interpretation. */

import { draw, h, mark } from "./dom.js";
import { count, number, percent, signed } from "./format.js";

/** Return a figure of the interval around zero, and a function that draws it. */
export function liftFigure() {
  const figure = h("span", { class: "interval", "aria-hidden": "true" }, h("span", { class: "range" }), h("span", { class: "point" }));
  return [
    figure,
    ({ low, high, difference }) => {
      figure.hidden = low === null;
      if (low === null) return;
      const reach = Math.max(Math.abs(low), Math.abs(high)) || 1;
      const place = (x) => `${50 + (46 * x) / reach}%`;
      draw(figure, { low: place(low), high: place(high), point: place(difference) });
      mark(figure, "data-verdict", verdict({ low, high }));
    },
  ];
}

/** Whether the bandit is better or worse than random assignment, or the interval contains zero. */
export const verdict = ({ low, high }) => (low === null ? "open" : low > 0 ? "better" : high < 0 ? "worse" : "open");

/** Describe a lift in words: its interval and what it means, and what it has gained. */
export function liftInWords(lift, rewards) {
  if (lift.difference === null) {
    return lift.bandit.n + lift.holdout.n ? "The lift needs a holdout or exploration." : "No rewards yet.";
  }
  const meaning = {
    better: "Better than random.",
    worse: "Worse than random: see the health checks.",
    open: "Not significant yet.",
  }[verdict(lift)];
  return `${meaning} ${level(lift)} confidence interval: ${range(lift.low, lift.high, rewards)}. ${gain(lift)}`;
}

/** Describe the interval for those who look only once. */
export const fixedHorizonInWords = (lift, rewards) =>
  lift.difference === null
    ? ""
    : `Fixed horizon, valid only if you look once, at a planned time: ${range(lift.fixed_low, lift.fixed_high, rewards)}.`;

/** +79% */
export const relativeLift = ({ relative }) => (relative === null ? "" : signed(percent(relative, 0)));

const level = ({ confidence }) => percent(confidence, 0);

const range = (low, high, rewards) => `${rewards.difference(low)} to ${rewards.difference(high)}`;

const gain = ({ extra_rewards }) => `Estimated sum of rewards gained so far: ${signed(gained(extra_rewards))}.`;

const gained = (x) => (Math.abs(x) < 10 ? number(x) : count(x).replace("-", "−"));
