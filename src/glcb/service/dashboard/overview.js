/** The overview: all experiments. */

import { ask } from "./api.js";
import { workersPanel } from "./workers.js";
import { createExperiment } from "./create.js";
import { h, keyed, mark, say } from "./dom.js";
import { errorsIn } from "./errors.js";
import { count, many, rewardFormat } from "./format.js";
import { comparison, gained, liftFigure, mainLift, mainNumber, verdict } from "./lift.js";
import { live } from "./live.js";
import { may } from "./session.js";

/** Number of decisions below which most health checks have too little data. */
const ENOUGH = 100;

/** Show the list until stopped. */
export function overviewPage(main) {
  const list = h("ul", { class: "experiments", "aria-label": "Experiments" });
  const summary = h("p", { class: "hint" }, "Loading…");
  const add = h("button", { class: "primary", onclick: createExperiment }, "New experiment");
  const empty = emptyState();
  main.append(h("div", { class: "heading" }, h("div", {}, h("h1", {}, "Experiments"), summary), add), list, empty);
  main.append(...skeletons());
  const workers = workersPanel();
  main.append(workers.element);
  const update = keyed(list, (one) => one.name, card);

  const polling = live(
    async () => (await ask("GET", "v1/experiments")).experiments,
    (experiments) => {
      main.querySelectorAll(".skeleton").forEach((element) => element.remove());
      const running = experiments.filter((one) => one.state === "running").length;
      say(summary, experiments.length ? `${many(experiments.length, "experiment")}, ${count(running)} running` : "");
      list.hidden = !experiments.length;
      add.hidden = !experiments.length || !may("admin");
      empty.hidden = Boolean(experiments.length);
      empty.querySelector("button").hidden = !may("admin");
      update(experiments);
    },
    errorsIn(main),
  );
  return {
    stop() {
      polling.stop();
      workers.stop();
    },
  };
}

const skeletons = () => [1, 2, 3].map(() => h("div", { class: "skeleton row", "aria-hidden": "true" }));

function emptyState() {
  return h(
    "section",
    { class: "empty", hidden: true },
    h("h2", {}, "No experiments yet"),
    h(
      "p",
      {},
      "An experiment chooses between arms, such as three headlines, and learns from the reward of every decision. A small " +
        "holdout is assigned at random to measure the lift.",
    ),
    h("button", { class: "primary", onclick: createExperiment }, "Create an experiment"),
  );
}

function card(first) {
  const state = h("span", { class: "state" });
  const about = h("p", { class: "hint" });
  const decisions = figure("decisions");
  const rate = figure("mean reward");
  const lift = figure("lift");
  const [interval, drawLift] = liftFigure();
  const gain = h("span", { class: "hint" });
  lift.element.append(h("dd", { class: "more" }, gain, interval));
  const health = h("p", { class: "health" });
  const link = h("a", { href: `#/${first.name}` }, first.name);
  const figures = h("dl", { class: "figures" }, lift.element, rate.element, decisions.element);
  const nothing = h("p", { class: "nothing" }, "No decisions yet. Open it to see how to send the first one.");
  const element = h("li", { class: "card" }, h("div", { class: "who" }, h("h2", {}, link, " ", state), about), figures, nothing, health);
  const update = (one) => {
    const rewards = rewardFormat(one.settings);
    mark(state, "data-state", one.state);
    say(state, one.state);
    say(about, one.settings.description ?? `${many(one.arm_count, "arm")} · ${one.settings.policy}`);
    decisions.say(count(one.counts.decisions));
    rate.say(rewards.value(one.lift.bandit.mean ?? one.lift.holdout.mean));
    const main = mainLift(one, comparison(one.settings));
    say(lift.element.querySelector("dt"), `lift over ${main.over}`);
    lift.say(mainNumber(main, rewards));
    say(gain, gained(main, rewards));
    mark(lift.element, "data-verdict", verdict(main));
    drawLift(main);
    figures.hidden = !one.counts.decisions;
    nothing.hidden = !figures.hidden;
    health.hidden = figures.hidden && one.state !== "broken";
    const wrong = one.health.filter(({ ok }) => ok === false).length;
    const early = one.counts.decisions < ENOUGH;
    const paused = one.settings.paused_arms?.length ?? 0;
    mark(health, "data-state", wrong ? "bad" : paused ? "paused" : early ? "early" : "good");
    say(health, wrong ? many(wrong, "check fails", "checks fail") : paused ? `${many(paused, "arm")} paused` : early ? "Not enough data" : "Healthy");
  };
  return [element, update];
}

function figure(label) {
  const value = h("dd", { class: "number" });
  return { element: h("div", {}, h("dt", {}, label), value), say: (text) => say(value, text) };
}
