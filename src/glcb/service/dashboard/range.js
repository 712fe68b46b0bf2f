/** The choice of a period: the last day, week or month, two dates, or everything. */

import { h } from "./dom.js";

const STORED = "glcb-range";
const DAY = 86_400_000;
const LENGTHS = { day: 1, week: 7, month: 30 };
const NAMES = { day: "24 hours", week: "7 days", month: "30 days", dates: "dates", all: "all" };

/** Return the chooser; `changed()` is called when another period is chosen. */
export function rangeChooser(changed) {
  let chosen = sessionStorage.getItem(STORED) ?? "all";
  if (!(chosen in NAMES) || chosen === "dates") chosen = "all";
  const date = (name, label) => h("input", { type: "date", name, "aria-label": label, onchange: () => changed() });
  const [from, to] = [date("from", "First day"), date("to", "Last day")];
  const dates = h("span", { class: "dates", hidden: true }, from, h("span", {}, "to"), to);
  const note = h("span", { class: "hint", hidden: true }, "The intervals of this period hold only if its start was chosen in advance, not because of its rewards.");
  const choose = (value) => {
    chosen = value;
    sessionStorage.setItem(STORED, value);
    dates.hidden = value !== "dates";
    if (value !== "dates" || from.value) changed();
    else from.focus();
  };
  const choice = ([value, text]) =>
    h("label", {}, h("input", { type: "radio", name: "range", value, checked: value === chosen, onchange: () => choose(value) }), h("span", {}, text));
  return {
    element: h("div", { class: "range" }, h("fieldset", { class: "segments" }, h("legend", {}, "Period"), Object.entries(NAMES).map(choice)), dates, note),
    /** Say so if the intervals of the curves that are shown are not valid at any time. */
    label({ anytime_valid }) {
      note.hidden = anytime_valid;
    },
    /** Return whether everything is shown. */
    isAll: () => chosen === "all" || (chosen === "dates" && !from.value && !to.value),
    /** Return the parameters of the period in a request. */
    query() {
      if (chosen in LENGTHS) return { from: new Date(Date.now() - LENGTHS[chosen] * DAY).toISOString() };
      if (chosen === "all") return {};
      const start = from.value ? { from: new Date(`${from.value}T00:00`).toISOString() } : {};
      return to.value ? { ...start, to: new Date(new Date(`${to.value}T00:00`).getTime() + DAY).toISOString() } : start;
    },
  };
}
