/** The overview of an experiment, updated live. */

import { ask, at } from "./api.js";
import { addArm, armsPanel } from "./arms.js";
import { catalogPanel } from "./catalog.js";
import { loadChanges, marksList, marksOf } from "./changes.js";
import { chart } from "./chart.js";
import { checklist } from "./connect.js";
import { drawnArms, liftCurve, palette, places, rewardCurves, settledBounds, shareCurves } from "./curves.js";
import { dialog, sentence } from "./dialogs.js";
import { h, mark, say } from "./dom.js";
import { errorsIn } from "./errors.js";
import { explainPanel } from "./explain.js";
import { figuresPanel } from "./figures.js";
import { clock, day, many, percent, rewardFormat, signed } from "./format.js";
import { comparison, mainLift } from "./lift.js";
import { live, slowly } from "./live.js";
import { attention, guardrailsPanel, healthPanel, inputsPanel, rewardsPanel } from "./panels.js";
import { rangeChooser } from "./range.js";
import { may } from "./session.js";
import { tabs } from "./tabs.js";

const MAX_POINTS = 150;

/** Show an experiment until stopped. */
export function experimentPage(main, name) {
  let shown = null;
  let liftNow = null;
  let axis = "time";
  let format = rewardFormat({ rewards: "binary" });
  const colors = palette();

  const head = heading(name, {
    pause: () => changeState(shown.experiment).then((done) => done && loop.now()),
    add: () => addArm(shown.experiment, now),
    report: () => range.query(),
  });
  const figures = figuresPanel();
  const lift = chart({
    title: "Lift over time",
    id: "lift-title",
    hint: "of all decisions from the start of the period to each point, with its 95% interval",
    format: (x) => (liftNow.isRelative ? signed(percent(x, 0)) : format.difference(x)),
    tick: (x) => (liftNow.isRelative ? signed(percent(x, 0)) : format.tick(x)),
    withZero: true,
    bounds: () => settledBounds(liftNow),
  });
  const rewards = chart({
    title: "Recent reward",
    id: "reward-title",
    hint: "moving average, with its latest value; the means of the whole period are at the top",
    format: (x) => format.value(x),
    tick: (x) => format.tick(x),
    bounds: () => format.bounds,
  });
  const shares = chart({
    title: "Recent share of each arm",
    id: "share-title",
    hint: "moving average, with its latest value; the shares of the whole period are in the table of arms",
    format: (x) => percent(x, 0),
    tick: (x) => percent(x, 0),
    stacked: true,
  });
  const now = () => {
    history.forget();
    loop.now();
  };
  const arms = eitherPanel(armsPanel(name, now), catalogPanel(name, now));
  const explain = explainPanel(name);
  const health = healthPanel();
  const panels = [guardrailsPanel(), rewardsPanel(), inputsPanel()];
  const wrong = attention();
  const range = rangeChooser(now);
  const marks = marksList(name);
  const start = checklist(name);
  const overCharts = h("div", { class: "over-charts" }, range.element, axisChooser((chosen) => {
    axis = chosen;
    drawCharts();
  }));
  const charts = h("div", { class: "two" }, rewards.element, shares.element);
  const small = h("div", { class: "small-panels" }, panels.map((panel) => panel.element));
  const later = [overCharts, figures.element, health.element, lift.element, marks.element, charts, small];
  const body = h("div", { hidden: true }, start.element, wrong.element, overCharts, figures.element, health.element, lift.element, marks.element, charts, arms.element, explain.element, small);
  const loading = h("div", { "aria-hidden": "true" }, h("div", { class: "skeleton row" }), h("div", { class: "skeleton tall" }));
  main.append(tabs(name, ""), head.element, body, loading);

  const drawCharts = () => {
    const { curves, stats, changes, drawn, color } = shown;
    const { points } = curves;
    const common = { axis, places: places(points), marks: marksOf(changes, points) };
    const { over: reference } = mainLift(stats, comparison(shown.experiment.settings));
    const over = reference === "the control" ? "control" : "lift";
    liftNow = liftCurve(points, over);
    lift.update({ ...common, curves: [{ name: `over ${reference}`, color: "--accent", strong: true, ...liftNow }] });
    const [bandit, holdout] = rewardCurves(points);
    const own = { name: "bandit", color: "--accent", values: bandit, strong: true };
    const control = { name: "holdout", color: "--quiet", values: holdout, dash: [5, 4] };
    const { bandit: chosen, holdout: rest } = stats.lift;
    rewards.update({ ...common, curves: [...(chosen.n || !rest.n ? [own] : []), ...(rest.n ? [control] : [])] });
    const parts = shareCurves(points, drawn);
    shares.update({ ...common, curves: drawn.map((arm, place) => ({ name: arm, color: color(arm), values: parts[place] })) });
    marks.update(common.marks);
  };

  const history = slowly(
    () => Promise.all([ask("GET", `${at(name, "curves")}?${new URLSearchParams({ ...range.query(), points: MAX_POINTS })}`), loadChanges(name, 50)]),
    ([{ points }]) => points.length < 10,
  );
  const loop = live(
    () => Promise.all([ask("GET", at(name)), ask("GET", at(name, "stats")), history()]),
    ([experiment, stats, [curves, changes]]) => {
      format = rewardFormat(experiment.settings);
      loading.hidden = true;
      body.hidden = false;
      range.label(curves);
      const drawn = drawnArms(stats.arms);
      shown = { experiment, stats, curves, changes, format, drawn, color: colors(drawn), period: range.isAll() ? null : curves };
      later.forEach((element) => {
        element.hidden = !stats.counts.decisions;
      });
      for (const part of [head, start, wrong, figures, health, arms, explain, ...panels]) part.update(shown);
      if (stats.counts.decisions) drawCharts();
    },
    errorsIn(main),
  );
  return {
    stop() {
      loop.stop();
      for (const figure of [lift, rewards, shares]) figure.stop();
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

function heading(name, { pause, add, report }) {
  const state = h("span", { class: "state" });
  const purpose = h("p", { class: "purpose", hidden: true });
  const about = h("p", { class: "hint" }, "Loading…");
  const pausing = h("button", { onclick: pause, hidden: true }, "Pause");
  const adding = h("button", { onclick: add, hidden: true }, "Add arm");
  const sending = h("a", { class: "button", target: "_blank", href: at(name, "report") }, "Report");
  const actions = h("div", { class: "actions" }, sending, pausing, adding);
  const element = h("div", { class: "heading" }, h("div", {}, h("h1", {}, name, " ", state), purpose, about), actions);
  return {
    element,
    update({ experiment }) {
      const { settings } = experiment;
      mark(state, "data-state", experiment.state);
      say(state, experiment.state);
      pausing.hidden = adding.hidden = experiment.state === "archived" || !may("edit");
      say(pausing, experiment.state === "running" ? "Pause" : "Resume");
      sending.href = `${at(name, "report")}?${new URLSearchParams(report())}`;
      purpose.hidden = !settings.description && !settings.hypothesis;
      say(purpose, [settings.description, settings.hypothesis && `Hypothesis: ${settings.hypothesis}`].filter(Boolean).map(sentence).join(" "));
      const parts = [settings.policy, many(experiment.arm_count, "arm"), `${percent(settings.holdout, 0)} holdout`, `since ${day(experiment.created_at)}`];
      if (settings.owner) parts.unshift(settings.owner);
      if ((settings.traffic ?? 1) < 1) parts.push(`the bandit decides ${percent(settings.traffic, 0)} of the traffic`);
      if (settings.shadow) parts.push("shadow mode: the control is served");
      if (settings.end_at) parts.push(`until ${clock(settings.end_at)}`);
      say(about, parts.join(" · "));
    },
  };
}

/** Ask, and pause or resume an experiment. */
export function changeState({ name, state }) {
  const pausing = state === "running";
  return dialog({
    title: pausing ? `Pause ${name}?` : `Resume ${name}?`,
    text: pausing
      ? "New decisions will be rejected. Rewards for earlier decisions are still accepted."
      : "The experiment will accept decisions again. Nothing it has learned is lost.",
    button: pausing ? "Pause" : "Resume",
    act: () => ask("PATCH", at(name), { state: pausing ? "paused" : "running" }),
  });
}

function axisChooser(choose) {
  const choice = (value, checked) => {
    const input = h("input", { type: "radio", name: "axis", value, checked, onchange: () => choose(value) });
    return h("label", {}, input, h("span", {}, value));
  };
  return h("fieldset", { class: "segments" }, h("legend", {}, "Horizontal axis"), choice("time", true), choice("decisions", false));
}
