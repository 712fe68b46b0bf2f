/** The lift and the best arm for groups of contexts, such as each country: for whom does the experiment pay? */

import { ask, at } from "./api.js";
import { armHref } from "./arms.js";
import { h, keyed, mark, say } from "./dom.js";
import { errorsIn } from "./errors.js";
import { count, percent, rewardFormat } from "./format.js";
import { comparison, gained, intervalInWords, liftFigure, liftInWords, mainLift, mainNumber, verdict } from "./lift.js";
import { live } from "./live.js";
import { tabs } from "./tabs.js";

/** Show the segments until stopped. */
export function segmentsPage(main, name) {
  let chosen = null;
  let shown = null;
  const choices = h("div", { class: "segments" });
  const note = h("p", { class: "hint" });
  const body = h("tbody");
  const lift = h("th", { scope: "col" }, "Lift");
  const columns = ["Decisions", lift, "Best arm", "Chosen most"];
  const table = h(
    "table",
    { class: "numbers segment-table" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Segment"), columns.map((column) => (column === lift ? lift : h("th", { scope: "col" }, column))))),
    body,
  );
  const nothing = h("p", { class: "nothing", hidden: true }, "No segments yet. They appear with the first decisions, for up to eight features. The settings can name them.");
  const panel = h("section", { class: "panel", "aria-label": "Segments", hidden: true }, h("fieldset", { class: "segments wrap" }, h("legend", {}, "By"), choices), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Segments" }, table), note);
  const loading = h("div", { class: "skeleton tall", "aria-hidden": "true" });
  main.append(
    tabs(name, "segments"),
    h("div", { class: "heading" }, h("div", {}, h("h1", {}, "Segments"), h("p", { class: "hint" }, "For whom is it better? The lift and the best arm by country, device, or any other feature of the context."))),
    panel,
    nothing,
    loading,
  );
  const rows = keyed(body, ({ feature, segment }) => `${feature} ${segment.value} ${segment.kind ?? ""}`, (one) => row(name, one));
  const choose = (feature) => {
    chosen = feature;
    show();
  };
  const updateChoices = keyed(choices, ({ feature }) => feature, ({ feature }) => {
    const input = h("input", { type: "radio", name: "feature", value: feature, onchange: () => choose(feature) });
    return [h("label", {}, input, h("span", {}, feature)), () => (input.checked = feature === chosen)];
  });
  const show = () => {
    const [experiment, { features }] = shown;
    loading.hidden = true;
    panel.hidden = !features.length;
    nothing.hidden = Boolean(features.length);
    if (!features.length) return;
    if (!features.some(({ feature }) => feature === chosen)) chosen = features[0].feature;
    updateChoices(features);
    const { segments, comparisons } = features.find(({ feature }) => feature === chosen);
    const format = rewardFormat(experiment.settings);
    const lifts = segments.map((segment) => mainLift(segment, comparison(experiment.settings)));
    say(lift, `Lift over ${lifts[0]?.over ?? "random"}`);
    const reach = Math.max(...lifts.flatMap(({ low, high }) => [Math.abs(low ?? 0), Math.abs(high ?? 0)])) || 1;
    rows(segments.map((segment, place) => ({ feature: chosen, segment, lift: lifts[place], format, reach })));
    say(
      note,
      `The intervals are corrected for ${count(comparisons)} comparisons: with 95% confidence, all of them hold at once and at any time. ` +
        "An interval that contains zero says that there is not enough data, not that there is no difference.",
    );
  };
  return live(
    () => Promise.all([ask("GET", at(name)), ask("GET", at(name, "segments"))]),
    (data) => {
      shown = data;
      show();
    },
    errorsIn(main),
  );
}

function row(name, { segment }) {
  const [interval, drawInterval] = liftFigure();
  const [value, gain, words] = [h("span", { class: "lift-value" }), h("span", { class: "hint gain" }), h("span", { class: "hint" })];
  const decisions = h("td");
  const best = h("td");
  const most = h("td");
  const lift = h("td", { class: "lift-cell" }, value, " ", gain, interval, words);
  const element = h("tr", {}, h("th", { scope: "row" }, segment.value), decisions, lift, best, most);
  return [
    element,
    ({ segment: now, lift: measured, format, reach }) => {
      say(decisions, `${count(now.decisions)} (${percent(now.share, 0)})`);
      mark(lift, "data-verdict", verdict(measured));
      say(value, mainNumber(measured, format));
      say(gain, gained(measured, format));
      drawInterval(measured, reach);
      say(words, measured.low === null || measured.low === undefined ? liftInWords(measured) : `${intervalInWords(measured, format).replace(/^\S+ interval /, "")}`);
      showArm(best, name, now.best_arm, now.arms, format);
      showArm(most, name, now.most_chosen, now.arms, format, true);
    },
  ];
}

function showArm(cell, name, arm, arms, format, byShare = false) {
  const found = arms.find((one) => one.arm === arm);
  const detail = !found ? "" : byShare ? percent(found.share, 0) : format.value(found.reward_mean);
  const text = arm ? `${arm} ${detail}` : "–";
  if (cell.textContent === text) return;
  cell.replaceChildren(...(arm ? [h("a", { href: armHref(name, arm) }, arm), " ", h("span", { class: "hint" }, detail)] : ["–"]));
}
