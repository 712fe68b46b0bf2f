/** The form fields of settings, generated from their schema in the OpenAPI document. */

import { ask } from "./api.js";
import { field, FieldErrors } from "./dialogs.js";
import { h } from "./dom.js";

/** Shorter hints than the descriptions in the schema. */
const HINTS = {
  holdout: "Share of the decisions that are served the baseline, to measure the lift.",
  half_life: "Number of decisions after which evidence counts half as much; leave it empty to forget nothing.",
  guardrails: "Metrics that must not fall or rise, and what is paused if one does.",
  reward_timeout: "Seconds to wait for a reward; leave it empty if you report every outcome, zeros included.",
  default_reward: "The reward of a decision that has timed out, such as 0 if only clicks are reported; without it, nothing is learned.",
  reward_aggregation: "Which reward counts if a decision gets several; all but “first” wait for the timeout.",
};

/** Return the schemas of all settings of a type in the OpenAPI document. */
export const schemasOf = async (type) => (await ask("GET", "openapi.json")).components.schemas[type].properties;

/** Return the controls of settings; `values` are shown instead of the defaults. */
export const controlsOf = (schemas, values = {}) => Object.entries(schemas).map(([name, schema]) => control(name, schema, values[name]));

/** Return the values of controls that differ from their defaults; throw all errors at once, also those that `check` finds. */
export function readAll(controls, check = () => ({})) {
  const values = {};
  const errors = {};
  for (const { name, read } of controls) {
    try {
      const value = read();
      if (value !== undefined) values[name] = value;
    } catch (error) {
      errors[name] = error.message;
    }
  }
  const found = Object.fromEntries(Object.entries({ ...check(values), ...errors }).filter(([, message]) => message));
  if (Object.keys(found).length) throw new FieldErrors(found);
  return values;
}

/**
 * Return the form field of a setting: its element, and a function that reads its value, which is undefined if it is
 * unchanged and null if it was cleared.
 */
function control(name, schema, value) {
  const kinds = schema.anyOf ?? schema.oneOf ?? [schema];
  const has = (type) => kinds.some((kind) => kind.type === type);
  const make =
    kinds.some(({ prefixItems }) => prefixItems) ? rangeControl
    : kinds.some((kind) => kind.enum) || schema.examples ? choiceControl
    : kinds.some(({ type, items }) => type === "array" && items?.type === "string") ? linesControl
    : has("number") || has("integer") ? numberControl
    : has("boolean") ? switchControl
    : kinds.some(({ format }) => format === "date-time") ? timeControl
    : has("object") || has("array") || kinds.some(({ $ref }) => $ref) ? jsonControl
    : textControl;
  const initial = value ?? schema.default ?? null;
  const { element, read } = make(name, schema, kinds, initial);
  const clearable = has("null") || schema.default === null;
  return {
    name,
    element,
    read() {
      const now = read();
      if (same(now, initial) || (now === null && !clearable)) return undefined;
      return now;
    },
  };
}

/** Return the title of a setting. */
export const label = (name) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");

const hint = ({ description = "" }, name) => HINTS[name] ?? description.replaceAll("`", "");

const option = (value, text = value) => h("option", { value }, text);

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

function textControl(name, schema, _, initial) {
  const long = ["description", "hypothesis"].includes(name);
  const input = h(long ? "textarea" : "input", { name, autocomplete: "off", rows: long ? 2 : null, class: long ? "prose" : null });
  input.value = initial ?? "";
  return { element: field(label(name), input, hint(schema, name)), read: () => input.value.trim() || null };
}

function linesControl(name, schema, _, initial) {
  const input = h("textarea", { name, rows: 4, spellcheck: "false" });
  input.value = Array.isArray(initial) ? initial.join("\n") : "";
  const lines = () => input.value.split("\n").map((line) => line.trim()).filter(Boolean);
  return { element: field(label(name), input, `${hint(schema, name)} One per line.`), read: () => (lines().length ? lines() : null) };
}

function choiceControl(name, schema, kinds, initial) {
  const values = kinds.find((kind) => kind.enum)?.enum ?? schema.examples;
  const others = values.filter((value) => value !== null && value !== initial);
  const select = h("select", { name }, initial === null ? option("", "not set") : option(initial), others.map((value) => option(value)));
  return { element: field(label(name), select, hint(schema, name)), read: () => select.value || null };
}

function switchControl(name, schema, _, initial) {
  const select = h("select", { name }, option("false", "no"), option("true", "yes"));
  select.value = String(Boolean(initial));
  return { element: field(label(name), select, hint(schema, name)), read: () => (select.value === "true" ? true : initial === null ? null : false) };
}

function timeControl(name, schema, _, initial) {
  const local = (time) => new Date(Date.parse(time) - new Date(time).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
  const start = initial === null ? "" : local(initial);
  const input = h("input", { name, type: "datetime-local", value: start });
  const read = () => (input.value === start ? initial : input.value ? new Date(input.value).toISOString() : null);
  return { element: field(label(name), input, hint(schema, name)), read };
}

function numberControl(name, schema, kinds, initial) {
  const { type, minimum, maximum } = kinds.find((kind) => kind.type === "number" || kind.type === "integer");
  const input = h("input", { name, type: "number", min: minimum, max: maximum, step: type === "integer" ? 1 : "any", value: initial });
  const read = () => {
    if (input.validity.badInput) throw new Error(`${label(name)} must be a number.`);
    if (input.value === "") return null;
    const value = Number(input.value);
    if (minimum !== undefined && maximum !== undefined && (value < minimum || value > maximum)) {
      throw new Error(`${label(name)} must be between ${minimum} and ${maximum}.`);
    }
    if (value < minimum) throw new Error(`${label(name)} must be at least ${minimum}.`);
    return value;
  };
  return { element: field(label(name), input, hint(schema, name)), read };
}

function jsonControl(name, schema, _, initial) {
  const text = initial === null || same(initial, {}) || same(initial, []) ? "" : oneByOne(initial);
  const input = h("textarea", { name, rows: Math.max(3, Math.min(12, text.split("\n").length + 2)), spellcheck: "false", placeholder: "none" });
  input.value = text;
  const read = () => {
    if (!input.value.trim()) return same(initial, {}) || same(initial, []) ? initial : null;
    try {
      return JSON.parse(input.value);
    } catch (error) {
      throw new Error(`${label(name)} is not valid JSON: ${error.message}`);
    }
  };
  return { element: field(label(name), input, `${hint(schema, name)} As JSON.`), read };
}

/** Return JSON with each entry of an object or array on a line of its own. */
function oneByOne(value) {
  if (Array.isArray(value)) return `[\n${value.map((one) => `  ${JSON.stringify(one)}`).join(",\n")}\n]`;
  if (typeof value !== "object") return JSON.stringify(value);
  return `{\n${Object.entries(value).map(([name, one]) => `  ${JSON.stringify(name)}: ${JSON.stringify(one)}`).join(",\n")}\n}`;
}

/** A choice between a default and a range of numbers, such as the rewards. */
function rangeControl(name, schema, _, initial) {
  const number = (part, value) => h("input", { name: `${name}-${part}`, type: "number", step: "any", value });
  const [low, high] = [number("low", "0"), number("high", "10")];
  const range = h("div", { class: "pair", hidden: true }, field("Lowest", low), field("Highest", high));
  const select = h("select", { name }, option("default", schema.default), option("range", "a range of numbers"));
  select.addEventListener("change", () => {
    range.hidden = select.value === "default";
  });
  const read = () => {
    if (select.value === "default") return initial;
    if (low.value === "" || high.value === "") throw new Error(`${label(name)} need a lowest and a highest value.`);
    return [Number(low.value), Number(high.value)];
  };
  return { element: [field(label(name), select, hint(schema, name)), range], read };
}
