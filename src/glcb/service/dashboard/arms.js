/** The table of arms, and the dialogs that add and remove one. */

import { ask, at } from "./api.js";
import { dialog, field } from "./dialogs.js";
import { announce, draw, h, keyed, say } from "./dom.js";
import { count, percent } from "./format.js";

/** Return the table of arms; `changed()` is called after one is removed. */
export function armsPanel(name, changed) {
  const body = h("tbody");
  const columns = ["Share", "Predicted", "Mean reward", "Rewards", "Decisions"];
  const table = h(
    "table",
    { class: "numbers arms" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Arm"), columns.map((text) => h("th", { scope: "col" }, text)), h("td"))),
    body,
  );
  const rows = keyed(body, ({ arm }) => arm.arm, ({ arm }) => row(name, arm.arm, changed));
  return {
    element: h(
      "section",
      { class: "panel", "aria-labelledby": "arms-title" },
      h(
        "div",
        { class: "panel-head" },
        h("h2", { id: "arms-title" }, "Arms"),
        h("p", { class: "hint" }, "Predicted: mean prediction over all recent contexts. Mean reward: observed when the arm was chosen. Rewards: number of rewards learned."),
      ),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": "arms-title" }, table),
    ),
    update({ stats, format, color }) {
      const only = stats.arms.length === 1;
      rows(stats.arms.map((arm) => ({ arm, format, only, color: color(arm.arm) })));
    },
  };
}

function row(name, arm, changed) {
  const cells = [1, 2, 3, 4].map(() => h("td"));
  const share = h("span");
  const bar = h("td", { class: "share" }, h("span", { class: "bar", "aria-hidden": "true" }), share);
  const remove = h(
    "button",
    { class: "quiet", "aria-label": `Remove ${arm}`, onclick: () => removeArm(name, arm, changed) },
    "Remove",
  );
  const element = h("tr", {}, h("th", { scope: "row" }, h("span", { class: "chip" }), arm), bar, cells, h("td", {}, remove));
  return [
    element,
    ({ arm: now, format, only, color }) => {
      draw(element, { color: `var(${color})`, share: `${100 * now.share}%` });
      say(share, percent(now.share));
      const texts = [format.value(now.predicted), format.value(now.reward_mean), count(now.rewards), count(now.decisions)];
      texts.forEach((text, place) => say(cells[place], text));
      remove.hidden = only;
    },
  ];
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
