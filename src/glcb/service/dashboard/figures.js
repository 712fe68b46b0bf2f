/** The key figures. */

import { h, mark, say } from "./dom.js";
import { count, many, microseconds, NONE, number, percent } from "./format.js";
import { fixedHorizonInWords, liftFigure, liftInWords, relativeLift, verdict } from "./lift.js";

/** Return the row of key figures. */
export function figuresPanel() {
  const decisions = figure("Decisions");
  const bandit = figure("Bandit reward");
  const holdout = figure("Holdout reward");
  const lift = figure("Lift over random assignment", "lift");
  const matchRate = figure("Match rate");
  const latency = figure("Decision latency");
  const [interval, drawLift] = liftFigure();
  lift.value.after(interval);
  const relative = h("span", { class: "relative" });
  const fixedHorizon = h("span", { class: "hint" });
  lift.value.after(relative);
  lift.note.after(fixedHorizon);
  const speed = speedometer();
  return {
    element: h(
      "section",
      { "aria-label": "Key metrics" },
      h("dl", { class: "key-figures" }, [lift, bandit, holdout, decisions, matchRate, latency].map(({ element }) => element)),
    ),
    update({ stats, format }) {
      const { counts, lift: measured } = stats;
      decisions.say(count(counts.decisions), speed(counts.decisions));
      bandit.say(format.value(measured.bandit.mean), many(measured.bandit.n, "reward"));
      holdout.say(format.value(measured.holdout.mean), many(measured.holdout.n, "reward"));
      lift.say(format.difference(measured.difference), liftInWords(measured, format));
      say(relative, relativeLift(measured));
      say(fixedHorizon, fixedHorizonInWords(measured, format));
      drawLift(measured);
      mark(lift.element, "data-verdict", verdict(measured));
      matchRate.say(percent(stats.match_rate), `${count(counts.pending)} pending`);
      const { p50, p99 } = stats.latency_us;
      latency.say(
        microseconds(p50),
        p99 === null ? "no decisions since startup" : `p50; p99 ${microseconds(p99)}, since startup`,
      );
    },
  };
}

function figure(label, kind = "") {
  const value = h("span", { class: "number" }, NONE);
  const note = h("span", { class: "hint" });
  return {
    element: h("div", { class: kind || null }, h("dt", {}, label), h("dd", {}, value, note)),
    value,
    note,
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
