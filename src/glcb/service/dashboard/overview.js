/** The overview: all experiments. */

import { ask } from "./api.js";
import { createExperiment } from "./create.js";
import { h, keyed, mark, say } from "./dom.js";
import { errorsIn } from "./errors.js";
import { count, many, rewardFormat } from "./format.js";
import { liftFigure } from "./lift.js";
import { live } from "./live.js";

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
  const update = keyed(list, (one) => one.name, card);

  return live(
    async () => (await ask("GET", "v1/experiments")).experiments,
    (experiments) => {
      main.querySelectorAll(".skeleton").forEach((element) => element.remove());
      const running = experiments.filter((one) => one.state === "running").length;
      say(summary, experiments.length ? `${many(experiments.length, "experiment")}, ${count(running)} running` : "");
      list.hidden = add.hidden = !experiments.length;
      empty.hidden = Boolean(experiments.length);
      update(experiments);
    },
    errorsIn(main),
  );
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
  const lift = figure("lift over random");
  const [interval, drawLift] = liftFigure();
  lift.element.append(interval);
  const health = h("p", { class: "health" });
  const link = h("a", { href: `#/${first.name}` }, first.name);
  const element = h(
    "li",
    { class: "card" },
    h("div", { class: "who" }, h("h2", {}, link, " ", state), about),
    h("dl", { class: "figures" }, decisions.element, rate.element, lift.element),
    health,
  );
  const update = (one) => {
    const rewards = rewardFormat(one.settings);
    mark(state, "data-state", one.state);
    say(state, one.state);
    say(about, `${many(one.arm_count, "arm")} · ${one.settings.policy}`);
    decisions.say(count(one.counts.decisions));
    rate.say(rewards.value(one.lift.bandit.mean));
    lift.say(rewards.difference(one.lift.difference));
    drawLift(one.lift);
    const wrong = one.health.filter(({ ok }) => ok === false).length;
    const early = one.counts.decisions < ENOUGH;
    mark(health, "data-state", wrong ? "bad" : early ? "early" : "good");
    say(health, wrong ? many(wrong, "check fails", "checks fail") : early ? "Not enough data" : "Healthy");
  };
  return [element, update];
}

function figure(label) {
  const value = h("dd", { class: "number" });
  return { element: h("div", {}, h("dt", {}, label), value), say: (text) => say(value, text) };
}
