/** Lift over random assignment: its confidence interval and its interpretation. */

import { draw, h, mark } from "./dom.js";

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

/** Describe a lift in words. */
export function liftInWords(lift, holdout, rewards) {
  if (lift.difference === null) {
    if (holdout === 0) return "There is no holdout to compare with.";
    return `${lift.bandit.n ? "No rewards in the holdout yet" : "No rewards yet"}; the holdout is ${Math.round(100 * holdout)}% of decisions.`;
  }
  const interval = `${Math.round(100 * lift.confidence)}% confidence interval: ${rewards.difference(lift.low)} to ${rewards.difference(lift.high)}.`;
  const meaning = {
    better: "Better than random.",
    worse: "Worse than random: see the health checks.",
    open: "Not significant yet.",
  }[verdict(lift)];
  return `${meaning} ${interval}`;
}
