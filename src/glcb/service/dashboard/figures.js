/** The few numbers that matter most. */

import { h, mark, say } from "./dom.js";
import { count, many, microseconds, NONE, number, percent } from "./format.js";
import { liftInWords, liftPicture, verdict } from "./lift.js";

/** Return the row of key figures. */
export function figuresPanel() {
  const decisions = figure("Decisions");
  const bandit = figure("Reward of the bandit");
  const chance = figure("Reward by chance");
  const lift = figure("Lift over chance", "lift");
  const joined = figure("Rewards found");
  const latency = figure("Time of a decision");
  const [picture, drawLift] = liftPicture();
  lift.value.after(picture);
  const speed = speedometer();
  return {
    element: h(
      "section",
      { "aria-label": "Key figures" },
      h("dl", { class: "key-figures" }, [lift, bandit, chance, decisions, joined, latency].map(({ element }) => element)),
    ),
    update({ experiment, stats, format }) {
      const { counts, lift: found } = stats;
      decisions.say(count(counts.decisions), speed(counts.decisions));
      bandit.say(format.value(found.bandit.mean), many(found.bandit.n, "reward"));
      chance.say(format.value(found.holdout.mean), `${many(found.holdout.n, "reward")} of the hold-out`);
      lift.say(format.difference(found.difference), liftInWords(found, experiment.holdout, format));
      drawLift(found);
      mark(lift.element, "data-verdict", verdict(found));
      joined.say(percent(stats.match_rate), `${count(counts.pending)} still wait`);
      const { p50, p99 } = stats.latency_us;
      latency.say(
        microseconds(p50),
        p99 === null ? "none since the service started" : `99 of 100 within ${microseconds(p99)}, since the start`,
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
    say(text, below) {
      say(value, text);
      say(note, below);
    },
  };
}

/** Return a function that tells how fast a count grows, from one look to the next. */
function speedometer() {
  const looks = [];
  return (total) => {
    looks.push([performance.now(), total]);
    if (looks.length > 6) looks.shift();
    const [since, before] = looks[0];
    const seconds = (performance.now() - since) / 1000;
    if (seconds < 1) return " ";
    const rate = (total - before) / seconds;
    if (rate <= 0) return "none right now";
    return `${rate < 9.95 ? number(rate).slice(0, 3) : count(rate)} a second right now`;
  };
}
