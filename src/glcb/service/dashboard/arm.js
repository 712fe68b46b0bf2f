/** The page of one arm: its reward and share over time, and its place among the others. */

import { ask, at } from "./api.js";
import { pauseArm, removeArm } from "./arms.js";
import { loadChanges, marksList, marksOf, pauseReason } from "./changes.js";
import { chart } from "./chart.js";
import { armCurve, places } from "./curves.js";
import { h, say } from "./dom.js";
import { errorsIn } from "./errors.js";
import { count, NONE, percent, rewardFormat } from "./format.js";
import { meanInterval } from "./lift.js";
import { live, slowly } from "./live.js";
import { rangeChooser } from "./range.js";
import { may } from "./session.js";
import { tabs } from "./tabs.js";

const MAX_POINTS = 30;

/** Show an arm until stopped. */
export function armPage(main, name, arm) {
  let format = rewardFormat({ rewards: "binary" });
  let paused = false;
  const state = h("span", { class: "state" });
  const now = () => {
    slow.forget();
    loop.now();
  };
  const pausing = h("button", { hidden: true, onclick: () => pauseArm(name, arm, !paused, now) }, "Pause arm");
  const removing = h("button", { hidden: true, onclick: () => removeArm(name, arm, () => (location.hash = `#/${name}`)) }, "Remove arm");
  const range = rangeChooser(now);
  const figures = { Observed: "mean reward when it was chosen", Predicted: "mean prediction over all recent contexts", Share: "of all decisions in the period", Decisions: "", Rewards: "" };
  const values = Object.fromEntries(Object.keys(figures).map((title) => [title, [h("span", { class: "number" }, NONE), h("span", { class: "hint" })]]));
  const list = h("dl", { class: "key-figures plain" }, Object.keys(figures).map((title) => h("div", {}, h("dt", {}, title), h("dd", {}, values[title]))));
  const reward = chart({
    title: "Reward of this arm over time",
    id: "arm-reward-title",
    hint: "of each point, when it was chosen, with its 95% interval",
    format: (x) => format.value(x),
    tick: (x) => format.tick(x),
    bounds: () => format.bounds,
  });
  const share = chart({ title: "Share over time", id: "arm-share-title", hint: "of the decisions of each point", format: (x) => percent(x, 0), tick: (x) => percent(x, 0), bounds: () => [0, 1] });
  const marks = marksList(name);
  const why = h("p", { class: "why" });
  const loading = h("div", { class: "skeleton tall", "aria-hidden": "true" });
  const body = h("div", { hidden: true }, why, h("div", { class: "over-charts" }, range.element), list, h("div", { class: "two" }, reward.element, share.element), marks.element);
  main.append(
    tabs(name, ""),
    h("div", { class: "heading" }, h("div", {}, h("h1", {}, arm, " ", state), h("p", { class: "hint" }, "One arm of ", h("a", { href: `#/${name}` }, name))), h("div", { class: "actions" }, pausing, removing)),
    body,
    loading,
  );

  const slow = slowly(
    () => Promise.all([ask("GET", `${at(name, "curves")}?${new URLSearchParams({ ...range.query(), points: MAX_POINTS, arm })}`), loadChanges(name, 50)]),
    ([{ points }]) => points.length < 10,
  );
  const loop = live(
    () => Promise.all([ask("GET", at(name)), ask("GET", at(name, "stats")), slow()]),
    ([experiment, stats, [curves, changes]]) => {
      const { settings } = experiment;
      format = rewardFormat(settings);
      loading.hidden = true;
      body.hidden = false;
      range.label(curves);
      paused = (settings.paused_arms ?? []).includes(arm);
      const isControl = settings.control === arm;
      say(state, paused ? "paused" : isControl ? "control" : "");
      state.dataset.state = paused ? "paused" : "control";
      say(pausing, paused ? "Resume arm" : "Pause arm");
      const fixed = !may("edit") || experiment.state === "archived";
      pausing.hidden = fixed || (isControl && !paused);
      removing.hidden = fixed || isControl || stats.arm_count === 1;
      const measured = curves.arms.find((one) => one.arm === arm);
      const known = stats.arms.find((one) => one.arm === arm);
      const texts = {
        Observed: [format.value(measured?.reward_mean), measured ? meanInterval(measured, format) : figures.Observed],
        Predicted: [format.value(known?.predicted), figures.Predicted],
        Share: [percent(measured?.share), figures.Share],
        Decisions: [count(measured?.decisions), range.isAll() ? "" : "in this period"],
        Rewards: [count(measured?.rewards), range.isAll() ? "" : "in this period"],
      };
      for (const [title, [number, hint]] of Object.entries(values)) {
        say(number, texts[title][0]);
        say(hint, texts[title][1]);
      }
      const { points } = curves;
      const own = marksOf(changes.filter((change) => !change.arm || change.arm === arm), points);
      say(why, paused ? (pauseReason(changes, arm) ?? "") : "");
      const common = { axis: "time", places: places(points), marks: own };
      reward.update({ ...common, curves: [{ name: arm, color: "--accent", strong: true, ...armCurve(points) }] });
      marks.update(own);
      share.update({ ...common, curves: [{ name: arm, color: "--accent", values: points.map((point) => point.arm?.share ?? null), strong: true }] });
    },
    errorsIn(main),
  );
  return {
    stop() {
      loop.stop();
      reward.stop();
      share.stop();
    },
  };
}
