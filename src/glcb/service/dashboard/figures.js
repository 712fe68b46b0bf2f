/** The key figures: whether the experiment pays comes first. */

import { h, mark, say } from "./dom.js";
import { count, many, microseconds, NONE, number, percent } from "./format.js";
import { bothLifts, comparison, fixedHorizonInWords, gained, intervalInWords, liftFigure, liftInWords, mainNumber, missingInWords, pointsInWords, sinceInWords, verdict } from "./lift.js";

/** Return the row of key figures. */
export function figuresPanel() {
  const answer = liftAnswer();
  const bandit = figure("Mean bandit reward");
  const holdout = figure("Mean holdout reward");
  const agreement = figure("Agreement");
  const decisions = figure("Decisions");
  const matchRate = figure("Match rate");
  const latency = figure("Decision latency");
  const speed = speedometer();
  return {
    element: h(
      "section",
      { "aria-label": "Key metrics" },
      h("dl", { class: "key-figures" }, answer.element, [bandit, holdout, agreement, decisions, matchRate, latency].map(({ element }) => element)),
    ),
    /** Show the figures of the whole experiment, or those of a period, in which case `period` has them. */
    update({ stats, format, experiment, period }) {
      const { counts } = stats;
      const lift = period?.lift ?? stats.lift;
      answer.update(bothLifts(period ?? stats, comparison(experiment.settings)), format, experiment, Boolean(period));
      const total = period ? period.points.reduce((sum, point) => sum + point.decisions, 0) : counts.decisions;
      decisions.say(count(total), period ? "in this period" : speed(total));
      bandit.say(format.value(lift.bandit.mean), many(lift.bandit.n, "reward"));
      const served = experiment.settings.baseline === "control" || experiment.settings.shadow ? "the control is served" : "assigned at random";
      holdout.say(format.value(lift.holdout.mean), `${many(lift.holdout.n, "reward")}, ${served}`);
      const shadow = experiment.settings.shadow && stats.shadow?.decisions ? stats.shadow : null;
      bandit.element.hidden = Boolean(shadow);
      agreement.element.hidden = !shadow;
      if (shadow) agreement.say(percent(shadow.agreements / shadow.decisions), "of its choices are the control");
      matchRate.say(percent(stats.match_rate), `${count(counts.pending)} pending`);
      const { p50, p99 } = stats.latency_us;
      latency.say(microseconds(p50), p99 === null ? "no decisions since startup" : `p50; p99 ${microseconds(p99)}, since startup`);
    },
  };
}

/** The lift: relative and in rewards gained, then in points with its interval. */
function liftAnswer() {
  const title = h("dt");
  const value = h("span", { class: "number" }, NONE);
  const gain = h("span", { class: "gain" });
  const [interval, drawInterval] = liftFigure();
  const words = h("span", { class: "verdict-words" });
  const missing = h("span", { class: "hint" });
  const range = h("span", { class: "hint" });
  const points = h("span", { class: "hint" });
  const once = h("span", { class: "hint" });
  const from = h("span", { class: "hint" });
  const second = h("span", { class: "hint second-lift" });
  const element = h("div", { class: "lift" }, title, h("dd", {}, value, gain, interval, words, missing, range, points, once, from, second));
  return {
    element,
    update([lift, other], format, experiment, inPeriod) {
      const { control } = experiment.settings;
      const reference = ({ over }) => (over === "random" ? "random assignment" : control ? `the control “${control}”` : "the control");
      say(title, `Lift over ${reference(lift)}${inPeriod ? ", in this period" : ""}`);
      say(value, mainNumber(lift, format));
      say(gain, gained(lift, format));
      drawInterval(lift);
      mark(element, "data-verdict", verdict(lift));
      say(words, liftInWords(lift));
      say(missing, inPeriod ? "" : missingInWords(lift));
      say(range, intervalInWords(lift, format));
      say(points, pointsInWords(lift, format));
      say(once, fixedHorizonInWords(lift, format));
      say(from, capitalized(sinceInWords(lift)));
      const parts = other ? [mainNumber(other, format), intervalInWords(other, format), sinceInWords(other)].filter((part) => part && part !== NONE) : [];
      const certainty = other ? [liftInWords(other), inPeriod ? "" : missingInWords(other)].filter(Boolean).join(" ") : "";
      say(second, other ? `Over ${reference(other)}: ${parts.length ? `${parts.join(", ")}. ` : ""}${certainty}` : "");
    },
  };
}

const capitalized = (text) => text && `${text[0].toUpperCase()}${text.slice(1)}.`;

function figure(label) {
  const value = h("span", { class: "number" }, NONE);
  const note = h("span", { class: "hint" });
  return {
    element: h("div", {}, h("dt", {}, label), h("dd", {}, value, note)),
    say(text, below) {
      say(value, text);
      say(note, below);
    },
  };
}

/** Return a function that formats how fast a count grows between updates. */
function speedometer() {
  const samples = [];
  return (total) => {
    samples.push([performance.now(), total]);
    if (samples.length > 6) samples.shift();
    const [since, before] = samples[0];
    const seconds = (performance.now() - since) / 1000;
    if (seconds < 1) return " ";
    const rate = (total - before) / seconds;
    if (rate <= 0) return "idle";
    return `${rate < 9.95 ? number(rate).slice(0, 3) : count(rate)}/s`;
  };
}
