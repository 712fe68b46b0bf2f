/** The panel that explains the decision for a context without making it. */

import { ask, at } from "./api.js";
import { parseObject } from "./arms.js";
import { contextForm } from "./context.js";
import { sentence } from "./dialogs.js";
import { announce, draw, h, mark, say } from "./dom.js";
import { count, percent, plain } from "./format.js";

const MAX_FEATURES = 8;

/** Return the panel with the form and the explanation. */
export function explainPanel(name) {
  const form = contextForm(name);
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const answer = h("div", { class: "explanation" });
  const submit = h("button", { class: "primary" }, "Explain");
  const nothing = h(
    "p",
    { class: "nothing" },
    "Enter a context and press Explain to see the probability of each arm and the contribution of each feature.",
  );
  const candidates = candidatesField();
  let data = null;
  const box = h("form", { novalidate: true }, form.element, candidates.element, problem, h("div", { class: "actions" }, submit));
  box.addEventListener("submit", async (event) => {
    event.preventDefault();
    problem.hidden = true;
    submit.disabled = true;
    try {
      const explanation = await ask("POST", at(name, "explanations"), { context: form.context(), ...candidates.read() });
      answer.replaceChildren(...explained(explanation, data));
      announce(`${likeliest(explanation).arm} has the highest probability.`);
    } catch (error) {
      say(problem, sentence(error.message));
      problem.hidden = false;
      answer.replaceChildren(nothing);
    } finally {
      submit.disabled = false;
    }
  });
  answer.append(nothing);
  return {
    element: h(
      "section",
      { class: "panel", "aria-labelledby": "explain-title" },
      h("div", { class: "panel-head" }, h("h2", { id: "explain-title" }, "Explain a decision"), h("p", { class: "hint" }, "no decision is made and nothing is learned")),
      h("div", { class: "explain" }, box, answer),
    ),
    update(now) {
      data = now;
      form.update(now.stats.features);
      candidates.update(now.experiment.settings.arms);
    },
  };
}

/** The candidates of the decision, for experiments whose arms have features. Without any, the whole catalog is meant. */
function candidatesField() {
  const text = h("textarea", { id: "candidates", name: "candidates", rows: 5, spellcheck: "false" });
  const element = h(
    "details",
    { hidden: true },
    h("summary", {}, "Candidates of the request"),
    h("label", { class: "visually-hidden", for: "candidates" }, "Candidates as JSON"),
    text,
    h("p", { class: "hint" }, "Names with their features, as JSON. Leave it empty for the whole catalog."),
  );
  return {
    element,
    read: () => (element.hidden || !text.value.trim() ? {} : { arms: parseObject(text.value, "Candidates") }),
    update(arms) {
      element.hidden = Array.isArray(arms);
      if (!element.hidden) text.placeholder = JSON.stringify(Object.fromEntries(Object.entries(arms).slice(0, 2)));
    },
  };
}

const likeliest = ({ arms }) => arms.reduce((best, arm) => (arm.probability > best.probability ? arm : best));

function explained(explanation, { experiment, format, color }) {
  const arms = [...explanation.arms].sort((a, b) => b.probability - a.probability);
  const ends = arms.flatMap((arm) => steps(arm).flatMap(({ from, to }) => [from, to]));
  const low = Math.min(0, ...ends);
  const high = Math.max(...ends, low + 1e-9);
  const place = (x) => `${(100 * (x - low)) / (high - low)}%`;
  return [
    ...arms.map((arm) => armExplained(arm, experiment.settings.holdout, place, format, color(arm.arm))),
    h("details", {}, h("summary", {}, "Show as text"), h("pre", { class: "words" }, explanation.text)),
  ];
}

function armExplained(arm, holdout, place, format, color) {
  const outside = holdout ? `outside the holdout (${plain(100 * holdout)}%); ` : "";
  const bonus = arm.bonus === null ? "never chosen" : `exploration bonus ${format.difference(arm.bonus)}`;
  const element = h(
    "article",
    { class: "arm" },
    h(
      "header",
      {},
      h("h3", {}, h("span", { class: "chip" }), arm.arm),
      h("p", { class: "number" }, `probability ${percent(arm.probability)}`),
      h("p", { class: "hint" }, `${outside}value ${format.value(arm.value)}, ${bonus}; about ${count(arm.pseudocount)} decisions in similar contexts`),
    ),
    h("ul", { class: "waterfall", "aria-label": `Contributions to the value of ${arm.arm}` }, steps(arm).map((step) => line(step, place, format))),
  );
  draw(element, { color: `var(${color})`, zero: place(0) });
  return element;
}

/** Return the steps from the base to the value, largest contributions first. */
function steps(arm) {
  const sorted = [...arm.contributions].sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution));
  const named = sorted.slice(0, sorted.length > MAX_FEATURES + 1 ? MAX_FEATURES : undefined);
  const rest = sorted.slice(named.length);
  const moves = named.map(({ feature, value, contribution }) => ({ label: `${feature} = ${value}`, amount: contribution }));
  if (rest.length) moves.push({ label: `${rest.length} others`, amount: rest.reduce((sum, { contribution }) => sum + contribution, 0) });
  let at = arm.base;
  const changes = moves.map(({ label, amount }) => ({ label, amount, from: at, to: (at += amount) }));
  return [
    { label: "base", from: 0, to: arm.base, kind: "base" },
    ...changes,
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
