/** The form for a context: one field per known feature, or JSON. */

import { h, mark } from "./dom.js";
import { plain } from "./format.js";

/** Return the form. */
export function contextForm(name) {
  const stored = `glcb-context-${name}`;
  const fields = h("div", { class: "fields" });
  const json = h("textarea", { name: "json", rows: 8, spellcheck: "false", "aria-label": "Context as JSON" });
  const byField = tab("fields", "Fields", () => show("fields"));
  const byJson = tab("json", "JSON", () => show("json"));
  const element = h("div", {}, h("fieldset", { class: "segments" }, h("legend", {}, "Context as"), byField.element, byJson.element), fields, json);
  let inputs = new Map();
  let shape = "";
  let mode = "json";
  let positional = false;

  json.value = sessionStorage.getItem(stored) ?? '{"country": "FR", "age": 31}';
  json.addEventListener("input", () => sessionStorage.setItem(stored, json.value));

  const fromFields = () => {
    const values = [...inputs].map(([feature, read]) => [feature, read()]).filter(([, value]) => value !== undefined);
    return positional ? [...inputs].map(([, read]) => read() ?? null) : Object.fromEntries(values);
  };

  const show = (wanted) => {
    if (wanted === "json" && mode === "fields") json.value = JSON.stringify(fromFields(), null, 2);
    mode = wanted;
    fields.hidden = mode !== "fields";
    json.hidden = mode === "fields";
    byField.input.checked = mode === "fields";
    byJson.input.checked = mode === "json";
  };
  show("json");
  byField.input.disabled = true;

  return {
    element,
    /** Return the context; throw an error if it is invalid. */
    context() {
      if (mode === "fields") return fromFields();
      let value;
      try {
        value = JSON.parse(json.value);
      } catch (error) {
        throw new Error(`Invalid JSON: ${error.message}`);
      }
      if (typeof value !== "object" || value === null) throw new Error('A context must be an object such as {"age": 31}, or a list of values.');
      return value;
    },
    /** Show fields for the known features. */
    update(features) {
      const known = features.filter(({ kind }) => kind);
      const now = JSON.stringify(known.map(({ name: feature, kind }) => [feature, kind]));
      if (now === shape || !known.length) return;
      const first = shape === "";
      shape = now;
      positional = known.every(({ name: feature }, place) => feature === String(place));
      const before = new Map([...inputs].map(([feature, read]) => [feature, read()]));
      inputs = new Map();
      fields.replaceChildren(
        ...known.map((feature, place) => {
          const [control, read] = controlFor(feature, `context-${place}`, before.get(feature.name));
          inputs.set(feature.name, read);
          return h("div", { class: "field" }, h("label", { for: `context-${place}` }, positional ? `value ${feature.name}` : feature.name), control);
        }),
      );
      mark(byField.input, "disabled", false);
      if (first && sessionStorage.getItem(stored) === null) show("fields");
    },
  };
}

function tab(value, text, choose) {
  const input = h("input", { type: "radio", name: "context-mode", value, onchange: choose });
  return { input, element: h("label", {}, input, h("span", {}, text)) };
}

/** Return a control for a feature and a function that reads it; an empty control leaves the feature out. */
function controlFor({ kind, range, values }, id, before) {
  if (kind === "number") {
    const [low, high] = range ?? [0, 1];
    const middle = Math.abs(high - low) > 10 ? Math.round((low + high) / 2) : Number(((low + high) / 2).toPrecision(3));
    const input = h("input", { id, type: "number", step: "any", value: before ?? middle, placeholder: `${plain(low)} to ${plain(high)}` });
    return [input, () => (input.value === "" ? undefined : Number(input.value))];
  }
  if (kind === "boolean") {
    const select = h("select", { id }, h("option", { value: "true" }, "true"), h("option", { value: "false" }, "false"), h("option", { value: "" }, "missing"));
    if (before !== undefined) select.value = String(before);
    return [select, () => (select.value === "" ? undefined : select.value === "true")];
  }
  const listed = h("datalist", { id: `${id}-values` }, values.map((value) => h("option", { value })));
  const input = h("input", { id, list: `${id}-values`, value: before ?? values[0] ?? "", autocomplete: "off" });
  return [h("span", {}, input, listed), () => (input.value === "" ? undefined : input.value)];
}
