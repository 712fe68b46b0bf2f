/** The page of an experiment, updated live. */

import { ask, at } from "./api.js";
import { addArm, armsPanel } from "./arms.js";
import { catalogPanel } from "./catalog.js";
import { chart } from "./chart.js";
import { drawnArms, palette, places, rewardCurves, shareCurves } from "./curves.js";
import { dialog } from "./dialogs.js";
import { h, mark, say } from "./dom.js";
import { errorsIn } from "./errors.js";
import { explainPanel } from "./explain.js";
import { figuresPanel } from "./figures.js";
import { firstSteps } from "./first-steps.js";
import { day, many, percent, rewardFormat } from "./format.js";
import { live } from "./live.js";
import { attention, healthPanel, inputsPanel, rewardsPanel } from "./panels.js";

/** Show an experiment until stopped. */
export function experimentPage(main, name) {
  let experiment = null;
  let stats = null;
  let axis = "decisions";
  let format = rewardFormat({ rewards: "binary" });
  let drawn = [];
  let color = null;
  const colors = palette();

  const head = heading(name, {
    pause: () => change({ state: experiment.state === "running" ? "paused" : "running" }),
    add: () => addArm(experiment, loop.now),
  });
  const change = (changes) => confirmed(name, changes).then((done) => done && loop.now());
  const figures = figuresPanel();
  const rewards = chart({
    title: "Reward",
    id: "reward-title",
    hint: "moving average",
    empty: "Shown after the first rewards.",
    format: (x) => format.value(x),
    tick: (x) => format.tick(x),
  });
  const shares = chart({
    title: "Share of each arm",
    id: "share-title",
    hint: "share of decisions",
    empty: "Shown after the first decisions.",
    format: (x) => percent(x, 0),
    tick: (x) => percent(x, 0),
    stacked: true,
  });
  const arms = eitherPanel(armsPanel(name, () => loop.now()), catalogPanel(name, () => loop.now()));
  const explain = explainPanel(name);
  const panels = [healthPanel(), rewardsPanel(), inputsPanel()];
  const wrong = attention();
  const axisChoice = chooser((chosen) => {
    axis = chosen;
    drawCharts();
  });
  const start = firstSteps(name);
  const overCharts = h("div", { class: "over-charts" }, axisChoice);
  const charts = h("div", { class: "two" }, rewards.element, shares.element);
  const small = h("div", { class: "three" }, panels.map((panel) => panel.element));
  const later = [figures.element, overCharts, charts, small];
  const body = h(
    "div",
    { hidden: true },
    start.element,
    wrong.element,
    figures.element,
    overCharts,
    charts,
    arms.element,
    explain.element,
    small,
  );
  const loading = h("div", { "aria-hidden": "true" }, h("div", { class: "skeleton row" }), h("div", { class: "skeleton tall" }));
  main.append(head.element, body, loading);

  const drawCharts = () => {
    const at = places(stats.blocks);
    const [bandit, holdout] = rewardCurves(stats.blocks);
    const own = { name: "bandit", color: "--accent", values: bandit, strong: true };
    const control = { name: "holdout", color: "--quiet", values: holdout, dash: [5, 4] };
    rewards.update({ axis, places: at, curves: stats.lift.holdout.n ? [own, control] : [own] });
    const curves = shareCurves(stats.blocks, drawn);
    shares.update({
      axis,
      places: at,
      curves: drawn.map((arm, place) => ({ name: arm, color: color(arm), values: curves[place] })),
    });
  };

  const loop = live(
    () => Promise.all([ask("GET", at(name)), ask("GET", at(name, "stats"))]),
    ([shownExperiment, shownStats]) => {
      experiment = shownExperiment;
      stats = shownStats;
      format = rewardFormat(experiment.settings);
      loading.hidden = true;
      body.hidden = false;
      drawn = drawnArms(stats.arms);
      color = colors(drawn);
      const data = { experiment, stats, format, color };
      later.forEach((element) => {
        element.hidden = !stats.counts.decisions;
      });
      for (const part of [head, start, wrong, figures, arms, explain, ...panels]) part.update(data);
      drawCharts();
    },
    errorsIn(main),
  );
  return {
    stop() {
      loop.stop();
      rewards.stop();
      shares.stop();
    },
  };
}

/** Show the table of all arms, or that of a catalog if arms have features. */
function eitherPanel(plain, catalog) {
  return {
    element: h("div", {}, plain.element, catalog.element),
    update(data) {
      const listed = Array.isArray(data.experiment.settings.arms);
      plain.element.hidden = !listed;
      catalog.element.hidden = listed;
      (listed ? plain : catalog).update(data);
    },
  };
}

function heading(name, { pause, add }) {
  const state = h("span", { class: "state" });
  const about = h("p", { class: "hint" }, "Loading…");
  const pausing = h("button", { onclick: pause, hidden: true }, "Pause");
  const adding = h("button", { onclick: add, hidden: true }, "Add arm");
  const evaluations = h("a", { class: "button", href: `#/${name}/evaluations` }, "Evaluations");
  const actions = h("div", { class: "actions" }, evaluations, pausing, adding);
  const element = h("div", { class: "heading" }, h("div", {}, h("h1", {}, name, " ", state), about), actions);
  return {
    element,
    update({ experiment }) {
      mark(state, "data-state", experiment.state);
      say(state, experiment.state);
      const archived = experiment.state === "archived";
      pausing.hidden = adding.hidden = archived;
      say(pausing, experiment.state === "running" ? "Pause" : "Resume");
      const parts = [
        experiment.settings.policy,
        many(experiment.arm_count, "arm"),
        `${percent(experiment.settings.holdout, 0)} holdout`,
        `since ${day(experiment.created_at)}`,
      ];
      say(about, parts.join(" · "));
    },
  };
}

function confirmed(name, changes) {
  const pausing = changes.state === "paused";
  return dialog({
    title: pausing ? `Pause ${name}?` : `Resume ${name}?`,
    text: pausing
      ? "New decisions will be rejected. Rewards for earlier decisions are still accepted."
      : "The experiment will accept decisions again. Nothing it has learned is lost.",
    button: pausing ? "Pause" : "Resume",
    act: () => ask("PATCH", at(name), changes),
  });
}

function chooser(choose) {
  const choice = (value, text, checked) => {
    const input = h("input", { type: "radio", name: "axis", value, checked, onchange: () => choose(value) });
    return h("label", {}, input, h("span", {}, text));
  };
  return h("fieldset", { class: "segments" }, h("legend", {}, "Horizontal axis"), choice("decisions", "decisions", true), choice("time", "time", false));
}
