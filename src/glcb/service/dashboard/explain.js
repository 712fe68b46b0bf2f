/** A context is given; what would be decided for it, and why, is shown. Nothing is decided or learned by it. */

import { ask, at } from "./api.js";
import { contextForm } from "./context.js";
import { sentence } from "./dialogs.js";
import { announce, draw, h, mark, say } from "./dom.js";
import { count, percent, plain } from "./format.js";

const MOST_FEATURES = 8;

/** Return the panel with the form and the answer. */
export function explainPanel(name) {
  const form = contextForm(name);
  const trouble = h("p", { class: "trouble", role: "alert", hidden: true });
  const answer = h("div", { class: "explanation" });
  const submit = h("button", { class: "primary" }, "Explain");
  let seen = null;
  const box = h("form", { novalidate: true }, form.element, trouble, h("div", { class: "actions" }, submit));
  box.addEventListener("submit", async (event) => {
    event.preventDefault();
    trouble.hidden = true;
    submit.disabled = true;
    try {
      const found = await ask("POST", at(name, "explain"), { context: form.context() });
      answer.replaceChildren(...explained(found, seen));
      announce(`${likeliest(found).arm} is the likeliest.`);
    } catch (error) {
      say(trouble, sentence(error.message));
      trouble.hidden = false;
    } finally {
      submit.disabled = false;
    }
  });
  const nothing = h(
    "p",
    { class: "nothing" },
    "Fill in a visitor and press Explain: you see how likely each arm is, and what every feature adds to its value.",
  );
  answer.append(nothing);
  return {
    element: h(
      "section",
      { class: "panel", "aria-labelledby": "explain-title" },
      h("div", { class: "panel-head" }, h("h2", { id: "explain-title" }, "What would be decided, and why"), h("p", { class: "hint" }, "nothing is decided or learned by asking")),
      h("div", { class: "explain" }, box, answer),
    ),
    update(now) {
      seen = now;
      form.update(now.stats.features);
    },
  };
}

const likeliest = ({ arms }) => arms.reduce((best, arm) => (arm.probability > best.probability ? arm : best));

function explained(found, { experiment, format, color }) {
  const arms = [...found.arms].sort((a, b) => b.probability - a.probability);
  const ends = arms.flatMap((arm) => steps(arm).flatMap(({ from, to }) => [from, to]));
  const low = Math.min(0, ...ends);
  const high = Math.max(...ends, low + 1e-9);
  const place = (x) => `${(100 * (x - low)) / (high - low)}%`;
  return [
    ...arms.map((arm) => armExplained(arm, experiment.holdout, place, format, color(arm.arm))),
    h("details", {}, h("summary", {}, "The same in words"), h("pre", { class: "words" }, found.text)),
  ];
}

function armExplained(arm, holdout, place, format, color) {
  const chance = holdout ? `unless left to chance (${plain(100 * holdout)}%); ` : "";
  const bonus = arm.bonus === null ? "never tried" : `${format.difference(arm.bonus)} for what is not known yet`;
  const element = h(
    "article",
    { class: "arm" },
    h(
      "header",
      {},
      h("h3", {}, h("span", { class: "chip" }), arm.arm),
      h("p", { class: "number" }, `played with ${percent(arm.probability)}`),
      h("p", { class: "hint" }, `${chance}worth ${format.value(arm.value)}, ${bonus}; tried about ${count(arm.pseudocount)} times on contexts like this`),
    ),
    h("ul", { class: "waterfall", "aria-label": `Where the value of ${arm.arm} comes from` }, steps(arm).map((step) => line(step, place, format))),
  );
  draw(element, { color: `var(${color})`, zero: place(0) });
  return element;
}

/** The way from the base to the value, the largest contributions first. */
function steps(arm) {
  const sorted = [...arm.contributions].sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution));
  const named = sorted.slice(0, sorted.length > MOST_FEATURES + 1 ? MOST_FEATURES : undefined);
  const rest = sorted.slice(named.length);
  const moves = named.map(({ feature, value, contribution }) => ({ label: `${feature} = ${value}`, amount: contribution }));
  if (rest.length) moves.push({ label: `${rest.length} others`, amount: rest.reduce((sum, { contribution }) => sum + contribution, 0) });
  let at = arm.base;
  const way = moves.map(({ label, amount }) => ({ label, amount, from: at, to: (at += amount) }));
  return [
    { label: "before any feature", from: 0, to: arm.base, kind: "base" },
    ...way,
    { label: "value", from: 0, to: arm.value, kind: "value" },
  ];
}

function line({ label, amount, from, to, kind }, place, format) {
  const bar = h("span", { class: "bar", "aria-hidden": "true" });
  draw(bar, { from: place(Math.min(from, to)), to: place(Math.max(from, to)) });
  const text = amount === undefined ? format.value(to) : format.difference(amount);
  const element = h("li", {}, h("span", { class: "label", title: label }, label), h("span", { class: "track" }, bar), h("span", { class: "number" }, text));
  mark(element, "data-kind", kind ?? (amount < 0 ? "less" : "more"));
  return element;
}
