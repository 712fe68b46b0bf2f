/** The change history of an experiment: what was changed, when, by whom and why. */

import { describe, loadChanges, valueText } from "./changes.js";
import { label } from "./controls.js";
import { h } from "./dom.js";
import { errorsIn } from "./errors.js";
import { weekday } from "./format.js";
import { live } from "./live.js";
import { tabs } from "./tabs.js";

const PAGE = 50;
const time = (date) => new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" }).format(new Date(date));

/** Show the trail until stopped. */
export function historyPage(main, name) {
  let older = [];
  let newest = [];
  const list = h("div");
  const more = h("button", { hidden: true, onclick: () => loadMore() }, "Show earlier changes");
  main.append(
    tabs(name, "history"),
    h("div", { class: "heading" }, h("div", {}, h("h1", {}, "History"), h("p", { class: "hint" }, "Every change of this experiment, newest first. Changes are events: they cannot be edited."))),
    list,
    more,
  );
  const loadMore = async () => {
    const found = await loadChanges(name, PAGE, [...newest, ...older].at(-1).sequence);
    older = [...older, ...found];
    show(found.length === PAGE);
  };
  const show = (hasMore) => {
    const known = new Set(newest.map(({ sequence }) => sequence));
    const changes = [...newest, ...older.filter(({ sequence }) => !known.has(sequence))];
    list.replaceChildren(...byDay(changes).map(([day, own]) => daySection(day, own)));
    more.hidden = !hasMore;
  };
  return live(
    () => loadChanges(name, PAGE),
    (found) => {
      const same = newest[0]?.sequence === found[0]?.sequence && newest.length === found.length;
      newest = found;
      if (!same) show(found.length === PAGE && !older.length);
    },
    errorsIn(main),
  );
}

function byDay(changes) {
  const days = new Map();
  for (const change of changes) {
    const day = weekday(change.at);
    days.set(day, [...(days.get(day) ?? []), change]);
  }
  return [...days];
}

function daySection(day, changes) {
  return h("section", { class: "panel day" }, h("h2", {}, day), h("ol", { class: "trail" }, changes.map(entry)));
}

function entry(change) {
  const automatic = change.by === "guardrail";
  return h(
    "li",
    { "data-automatic": automatic ? "true" : null },
    h("time", { datetime: change.at, class: "number" }, time(change.at)),
    h(
      "div",
      {},
      h("p", { class: "what" }, change.action === "settings_changed" ? change.changes.map(oneSetting) : describe(change)),
      h("p", { class: "hint" }, automatic ? "automatic, by a guardrail" : change.by ? `by ${change.by}` : "", change.reason ? ` · ${change.reason}` : ""),
    ),
  );
}

/** Return a setting with its values before and after. */
function oneSetting({ setting, from, to, shortened }) {
  if (shortened) return h("span", {}, h("strong", {}, label(setting)), " changed");
  if (setting === "state") return h("span", {}, describe({ changes: [{ setting, from, to }] }));
  return h("span", {}, h("strong", {}, label(setting)), " ", h("del", {}, valueText(setting, from)), " → ", h("ins", {}, valueText(setting, to)), " ");
}
