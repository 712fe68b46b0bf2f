/** The table of arms, and the dialogs that add, pause and remove one. */

import { ask, at } from "./api.js";
import { pauseReason } from "./changes.js";
import { dialog, field } from "./dialogs.js";
import { announce, draw, h, keyed, say } from "./dom.js";
import { count, percent } from "./format.js";
import { meanFigure, meanInterval } from "./lift.js";
import { may } from "./session.js";

/** The columns, with what they mean. */
const COLUMNS = {
  Share: "of all decisions in the period",
  Observed: "mean reward when it was chosen, 95% interval",
  Predicted: "mean prediction over all recent contexts",
  Rewards: "learned from",
  Decisions: "",
};

/** Return the path of the page of an arm. */
export const armHref = (name, arm) => `#/${name}/arms/${encodeURIComponent(arm)}`;

/** Return the heads of columns with what they mean below them. */
export const explained = (columns) => Object.entries(columns).map(([text, meaning]) => h("th", { scope: "col" }, text, meaning ? h("span", { class: "hint" }, meaning) : null));

/** Return the table of arms; `changed()` is called after one is paused or removed. */
export function armsPanel(name, changed) {
  const body = h("tbody");
  const table = h("table", { class: "numbers arms" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Arm"), explained(COLUMNS), h("td"))), body);
  const pauses = h("ul", { class: "pauses" });
  const updatePauses = keyed(pauses, ({ arm }) => arm, ({ arm }) => {
    const text = h("span", { class: "hint" });
    return [h("li", {}, h("strong", {}, arm), " ", text), ({ why }) => say(text, why)];
  });
  const rows = keyed(body, ({ arm }) => arm.arm, ({ arm }) => row(name, arm.arm, changed));
  return {
    element: h(
      "section",
      { class: "panel", "aria-labelledby": "arms-title" },
      h("div", { class: "panel-head" }, h("h2", { id: "arms-title" }, "Arms"), h("p", { class: "hint" }, "Open an arm to see it over time.")),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": "arms-title" }, table),
      pauses,
    ),
    update({ experiment, stats, changes, format, color, period }) {
      const inPeriod = new Map((period?.arms ?? []).map((arm) => [arm.arm, arm]));
      const arms = stats.arms.map((arm) => ({ ...arm, ...inPeriod.get(arm.arm) }));
      const ends = arms.flatMap(({ low, high }) => [low, high]).filter((end) => end !== null && end !== undefined);
      const scale = [Math.min(...ends), Math.max(...ends)];
      const paused = new Set(experiment.settings.paused_arms ?? []);
      updatePauses(arms.filter(({ arm }) => paused.has(arm)).map(({ arm }) => ({ arm, why: pauseReason(changes, arm) ?? "Paused" })));
      rows(
        arms.map((arm) => ({
          arm,
          format,
          scale,
          color: color(arm.arm),
          paused: paused.has(arm.arm),
          control: experiment.settings.control === arm.arm,
          only: stats.arms.length === 1,
          fixed: experiment.state === "archived" || !may("edit"),
        })),
      );
    },
  };
}

function row(name, arm, changed) {
  const share = h("span");
  const bar = h("td", { class: "share" }, h("span", { class: "bar", "aria-hidden": "true" }), share);
  const [interval, drawInterval] = meanFigure();
  const [mean, ends] = [h("span"), h("span", { class: "hint" })];
  const cells = [1, 2, 3].map(() => h("td"));
  const state = h("span", { class: "state" });
  let paused = false;
  const pausing = h("button", { class: "quiet", onclick: () => pauseArm(name, arm, !paused, changed) }, "Pause");
  const remove = h("button", { class: "quiet", "aria-label": `Remove ${arm}`, onclick: () => removeArm(name, arm, changed) }, "Remove");
  const title = h("th", { scope: "row" }, h("span", { class: "chip" }), h("a", { href: armHref(name, arm) }, arm), " ", state);
  const observed = h("td", { class: "observed" }, mean, interval, ends);
  const element = h("tr", {}, title, bar, observed, cells, h("td", { class: "row-actions" }, pausing, remove));
  return [
    element,
    (now) => {
      paused = now.paused;
      draw(element, { color: `var(${now.color})`, share: `${100 * now.arm.share}%` });
      say(share, percent(now.arm.share));
      say(mean, now.format.value(now.arm.reward_mean));
      say(ends, meanInterval(now.arm, now.format));
      drawInterval(now.arm, now.scale);
      const texts = [now.format.value(now.arm.predicted), count(now.arm.rewards), count(now.arm.decisions)];
      texts.forEach((text, place) => say(cells[place], text));
      say(state, paused ? "paused" : now.control ? "control" : "");
      state.dataset.state = paused ? "paused" : "control";
      say(pausing, paused ? "Resume" : "Pause");
      pausing.setAttribute("aria-label", `${paused ? "Resume" : "Pause"} ${arm}`);
      pausing.hidden = now.fixed || (now.control && !paused);
      remove.hidden = now.only || now.control || now.fixed;
    },
  ];
}

/** Ask, and pause or resume an arm; `changed()` is called afterwards. */
export async function pauseArm(name, arm, paused, changed) {
  const reason = h("input", { name: "reason", autocomplete: "off", maxlength: 500 });
  const done = await dialog({
    title: paused ? `Pause “${arm}”?` : `Resume “${arm}”?`,
    text: paused ? "No decision will choose it. What was learned about it is kept, and rewards are still accepted." : "Decisions can choose it again.",
    fields: [field("Reason", reason, "Optional. Shown in the history.")],
    button: paused ? "Pause" : "Resume",
    act: () => ask("PATCH", at(name, "arms", arm), { paused, ...(reason.value.trim() ? { reason: reason.value.trim() } : {}) }),
  });
  if (!done) return;
  announce(`${arm} was ${paused ? "paused" : "resumed"}.`);
  changed();
}

/** Ask, and remove an arm; `changed()` is called afterwards. */
export async function removeArm(name, arm, changed) {
  const done = await dialog({
    title: `Remove “${arm}”?`,
    text: "It will no longer be chosen. Everything learned about it is lost, and rewards for its pending decisions are rejected.",
    button: "Remove",
    danger: true,
    act: () => ask("DELETE", at(name, "arms", arm)),
  });
  if (!done) return;
  announce(`${arm} was removed.`);
  changed();
}

/** Show the dialog that adds an arm: as a copy of another one, or with its features if the experiment has a catalog. */
export async function addArm({ name: experiment, settings }, changed) {
  const input = h("input", { name: "arm", autocomplete: "off", maxlength: 200, autofocus: true });
  const [element, read] = Array.isArray(settings.arms) ? copyField(settings.arms) : featuresField(settings.arms);
  const done = await dialog({
    title: "Add arm",
    fields: [field("Name", input), element],
    button: "Add",
    act: () => {
      const arm = input.value.trim();
      if (!arm) throw new Error("An arm needs a name.");
      return ask("POST", at(experiment, "arms"), { name: arm, ...read() });
    },
  });
  if (!done) return;
  announce(`${input.value.trim()} was added.`);
  changed();
}

function copyField(arms) {
  const like = h(
    "select",
    { name: "like" },
    h("option", { value: "" }, "untrained"),
    arms.map((arm) => h("option", { value: arm }, `as a copy of ${arm}`)),
  );
  const hint = "A copy starts with the values of the other arm and with the evidence of at most 64 decisions.";
  return [field("Initial state", like, hint), () => (like.value ? { like: like.value } : {})];
}

function featuresField(arms) {
  const [example] = Object.values(arms);
  const text = h("textarea", { name: "features", rows: 4, spellcheck: "false" });
  text.value = JSON.stringify(example ?? {}, null, 2);
  return [field("Features", text, "As JSON."), () => ({ features: parseObject(text.value, "Features") })];
}

/** Return an object that is written as JSON; throw an error if it is not one. */
export function parseObject(text, what) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} must be valid JSON: ${error.message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${what} must be an object such as {"price": 3}.`);
  return value;
}
