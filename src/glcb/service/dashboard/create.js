/** The form that creates an experiment, generated from the schema of its settings in the OpenAPI document. */

import { ask, at } from "./api.js";
import { dialog, field, sentence } from "./dialogs.js";
import { h } from "./dom.js";

/** Settings that are always shown, in this order; all others are under "More settings". */
const MAIN = ["arms", "rewards", "reward_timeout", "default_reward", "reward_aggregation", "holdout"];

/** Shorter hints than the descriptions in the schema. */
const HINTS = {
  reward_timeout: "Seconds to wait for a reward; leave it empty if you report every outcome, zeros included.",
  default_reward: "The reward of a decision that has timed out, such as 0 if only clicks are reported; without it, nothing is learned.",
  reward_aggregation: "Which reward counts if a decision gets several; all but “first” wait for the timeout.",
};

/** Decisions until the interval of the lift excludes zero: `python -m benchmarks.lift holdout`. */
const RATES = ["1%", "5%", "20%"];
const NEEDED = {
  "1%": ["53,225", "9,025", "2,400"],
  "2%": ["43,325", "7,925", "2,050"],
  "5%": ["38,875", "6,225", "1,925"],
  "10%": ["29,125", "4,525", "1,500"],
  "20%": ["22,850", "3,875", "1,025"],
};

let loading = false;

/** Show the form, create the experiment and open its page. */
export async function createExperiment() {
  if (loading) return;
  loading = true;
  let controls;
  try {
    const { components } = await ask("GET", "openapi.json");
    controls = Object.entries(components.schemas.ExperimentSettings.properties).map(([name, schema]) => control(name, schema));
  } catch (error) {
    await dialog({ title: "The form could not be loaded", text: sentence(error.message), button: "Close", must: true, act: async () => {} });
    return;
  } finally {
    loading = false;
  }
  const main = MAIN.map((name) => controls.find((one) => one.name === name).element);
  const others = controls.filter(({ name }) => !MAIN.includes(name)).map(({ element }) => element);
  const nameInput = h("input", { name: "name", required: true, maxlength: 64, autocomplete: "off", spellcheck: "false", autofocus: true });
  const created = await dialog({
    title: "New experiment",
    fields: [
      field("Name", nameInput, "Lowercase letters, digits, - and _."),
      main,
      holdoutSizes(),
      h("details", {}, h("summary", {}, "More settings"), others),
    ],
    button: "Create",
    act: async () => {
      if (!nameInput.value.trim()) throw new Error("An experiment needs a name.");
      await ask("PUT", at(nameInput.value.trim()), settings(controls));
    },
  });
  if (created) location.hash = `#/${nameInput.value.trim()}`;
}

/** Return a table that suggests a size of the holdout. */
function holdoutSizes() {
  const row = (kind, cells) => h("tr", {}, cells.map((cell) => h(kind, {}, cell)));
  const rows = Object.entries(NEEDED).map(([size, decisions]) => row("td", [size, ...decisions]));
  return h(
    "details",
    {},
    h("summary", {}, "How large should the holdout be?"),
    h(
      "p",
      { class: "hint" },
      "Decisions until the interval shows a relative lift of 50%, by the reward rate of random assignment (six arms, 5% exploration). " +
        "Decisions in the holdout do without the lift, so use the smallest one that answers in time.",
    ),
    h("table", { class: "sizes" }, h("thead", {}, row("th", ["holdout", ...RATES])), h("tbody", {}, rows)),
  );
}

/** Return the settings that differ from their defaults. */
function settings(controls) {
  const values = controls.map(({ name, read }) => [name, read()]).filter(([, value]) => value !== undefined);
  const chosen = Object.fromEntries(values);
  if ((chosen.arms ?? []).length < 2) throw new Error("An experiment needs at least two arms, one per line.");
  return chosen;
}

/** Return the form field of a setting: its element, and a function that reads its value, undefined for the default. */
function control(name, schema) {
  const kinds = schema.anyOf ?? [schema];
  const make =
    kinds.some(({ prefixItems }) => prefixItems) ? rangeControl
    : kinds.some((kind) => kind.enum) || schema.examples ? choiceControl
    : kinds.some(({ type }) => type === "array") ? linesControl
    : kinds.some(({ type }) => type === "number" || type === "integer") ? numberControl
    : kinds.some(({ type }) => type === "object") ? objectControl
    : textControl;
  return { name, ...make(name, schema, kinds) };
}

const label = (name) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");

const hint = ({ description = "" }, name) => HINTS[name] ?? description.replaceAll("`", "");

const option = (value, text = value) => h("option", { value }, text);

const unlessDefault = (value, schema) => (value === schema.default ? undefined : value);

function textControl(name, schema) {
  const input = h("input", { name, value: schema.default ?? "", autocomplete: "off" });
  return { element: field(label(name), input, hint(schema, name)), read: () => unlessDefault(input.value.trim(), schema) };
}

function linesControl(name, schema) {
  const input = h("textarea", { name, rows: 4, spellcheck: "false" });
  const lines = () => input.value.split("\n").map((line) => line.trim()).filter(Boolean);
  return { element: field(label(name), input, `${hint(schema, name)} One per line.`), read: lines };
}

function choiceControl(name, schema, kinds) {
  const values = kinds.find((kind) => kind.enum)?.enum ?? schema.examples;
  const ordered = [schema.default, ...values.filter((value) => value !== schema.default)];
  const select = h("select", { name }, ordered.map((value) => option(value)));
  return { element: field(label(name), select, hint(schema, name)), read: () => unlessDefault(select.value, schema) };
}

function numberControl(name, schema, kinds) {
  const { type, minimum, maximum } = kinds.find((kind) => kind.type === "number" || kind.type === "integer");
  const input = h("input", { name, type: "number", min: minimum, max: maximum, step: type === "integer" ? 1 : "any", value: schema.default });
  const read = () => {
    if (input.validity.badInput) throw new Error(`${label(name)} must be a number.`);
    if (input.value === "") return undefined;
    const value = Number(input.value);
    if (value < minimum || value > maximum) throw new Error(`${label(name)} must be between ${minimum} and ${maximum}.`);
    return unlessDefault(value, schema);
  };
  return { element: field(label(name), input, hint(schema, name)), read };
}

function objectControl(name, schema) {
  const input = h("textarea", { name, rows: 2, spellcheck: "false", placeholder: "{}" });
  const read = () => {
    if (!input.value.trim()) return undefined;
    try {
      return JSON.parse(input.value);
    } catch (error) {
      throw new Error(`${label(name)} is not valid JSON: ${error.message}`);
    }
  };
  return { element: field(label(name), input, `${hint(schema, name)} As JSON.`), read };
}

/** A choice between a default and a range of numbers, such as the rewards. */
function rangeControl(name, schema) {
  const number = (part, value) => h("input", { name: `${name}-${part}`, type: "number", step: "any", value });
  const [low, high] = [number("low", "0"), number("high", "10")];
  const range = h("div", { class: "pair", hidden: true }, field("Lowest", low), field("Highest", high));
  const select = h("select", { name }, option("default", schema.default), option("range", "a range of numbers"));
  select.addEventListener("change", () => {
    range.hidden = select.value === "default";
  });
  const read = () => {
    if (select.value === "default") return undefined;
    if (low.value === "" || high.value === "") throw new Error(`${label(name)} need a lowest and a highest value.`);
    return [Number(low.value), Number(high.value)];
  };
  return { element: [field(label(name), select, hint(schema, name)), range], read };
}
