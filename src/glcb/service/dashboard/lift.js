/** What the bandit brings more than chance: a number, its interval, and what that means. */

import { draw, h, mark } from "./dom.js";

/** Return a picture of the interval on a line with zero in its middle, and a function that draws it. */
export function liftPicture() {
  const picture = h("span", { class: "interval", "aria-hidden": "true" }, h("span", { class: "range" }), h("span", { class: "point" }));
  return [
    picture,
    ({ low, high, difference }) => {
      picture.hidden = low === null;
      if (low === null) return;
      const reach = Math.max(Math.abs(low), Math.abs(high)) || 1;
      const place = (x) => `${50 + (46 * x) / reach}%`;
      draw(picture, { low: place(low), high: place(high), point: place(difference) });
      mark(picture, "data-verdict", verdict({ low, high }));
    },
  ];
}

/** Whether the bandit is better or worse than chance, or nobody can tell yet. */
export const verdict = ({ low, high }) => (low === null ? "open" : low > 0 ? "better" : high < 0 ? "worse" : "open");

/** Say what a lift means, in words. */
export function liftInWords(lift, holdout, rewards) {
  if (lift.difference === null) {
    if (holdout === 0) return "No decisions are left to chance, so there is nothing to compare with.";
    return `${lift.bandit.n ? "No reward of the hold-out yet" : "No rewards yet"}: ${Math.round(100 * holdout)}% of the decisions are left to chance for comparison.`;
  }
  const sure = `${Math.round(100 * lift.confidence)}% sure: between ${rewards.difference(lift.low)} and ${rewards.difference(lift.high)}.`;
  const meaning = {
    better: "Better than chance.",
    worse: "Worse than chance: look at the health checks.",
    open: "Not certain yet.",
  }[verdict(lift)];
  return `${meaning} ${sure}`;
}
