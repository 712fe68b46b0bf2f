/** What was changed in an experiment, by whom and when: as texts and as marks on figures. */

import { ask, at } from "./api.js";
import { label } from "./controls.js";
import { h, keyed } from "./dom.js";
import { clock, percent } from "./format.js";

const MAX_MARKS = 40;
const SHARES = ["exploration", "holdout", "traffic"];

/** Return the newest changes of an experiment, or those before an event. */
export async function loadChanges(name, limit, before) {
  const query = new URLSearchParams({ limit, ...(before ? { before } : {}) });
  return (await ask("GET", `${at(name, "changes")}?${query}`)).changes;
}

/** Return what a change did, in words. */
export function describe({ action, arm, changes = [] }) {
  const texts = {
    created: "Experiment created",
    arm_added: `Arm “${arm}” added`,
    arm_removed: `Arm “${arm}” removed`,
    arm_paused: `Arm “${arm}” paused`,
    arm_resumed: `Arm “${arm}” resumed`,
    arms_changed: "Catalog of arms changed",
    model_uploaded: "Model uploaded",
    recovered: "Continued from the last good state",
    guardrail_broken: arm ? `Guardrail broken by “${arm}”` : "Guardrail broken",
  };
  return texts[action] ?? (changes.map(changed).join("; ") || "Settings saved");
}

function changed({ setting, from, to, shortened }) {
  if (setting === "state") return { paused: "Experiment paused", running: "Experiment resumed", archived: "Experiment archived" }[to] ?? `State: ${to}`;
  if (shortened || JSON.stringify(to ?? from ?? "").length > 60) return `${label(setting)} changed`;
  return `${label(setting)}: ${valueText(setting, from)} → ${valueText(setting, to)}`;
}

/** Return the value of a setting as a short text. */
export function valueText(setting, value) {
  if (value === null || value === undefined) return "none";
  if (SHARES.includes(setting)) return percent(value, value * 100 === Math.round(value * 100) ? 0 : 1);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/**
 * Return numbered marks for figures of points, oldest first; the creation has none. A change within the first point is
 * marked at its end, where the figures begin.
 */
export function marksOf(changes, points) {
  const [start, begin] = points.length ? [Date.parse(points[0].from), Date.parse(points[0].to)] : [0, 0];
  return changes
    .filter(({ action, at: when }) => action !== "created" && Date.parse(when) >= start)
    .slice(0, MAX_MARKS)
    .reverse()
    .map((change, place) => ({
      at: Math.max(Date.parse(change.at), begin) / 1000,
      label: String(place + 1),
      text: `${describe(change)}, ${clock(change.at)}${change.by ? `, by ${change.by}` : ""}`,
      change,
    }));
}

/** Return who paused an arm, when and why, or null if it was long ago. */
export function pauseReason(changes, arm) {
  const found = changes.find((change) => change.action === "arm_paused" && change.arm === arm);
  if (!found) return null;
  const who = found.by === "guardrail" ? "by a guardrail" : `by ${found.by}`;
  return `Paused ${who}, ${clock(found.at)}${found.reason ? `: ${found.reason}` : ""}`;
}

/** Return the list of the changes that are marked on the figures, by their numbers. */
export function marksList(name) {
  const list = h("ol", { class: "marks" });
  const element = h("section", { class: "marked", "aria-label": "Changes in this period", hidden: true }, list, h("a", { href: `#/${name}/history` }, "History"));
  const update = keyed(list, ({ label, text }) => `${label} ${text}`, ({ label, change }) => {
    const when = h("time", { datetime: change.at }, clock(change.at));
    return [h("li", {}, h("span", { class: "mark-label" }, label), ` ${describe(change)} `, h("span", { class: "hint" }, when, ` ${change.by}`)), () => {}];
  });
  return {
    element,
    update(marks) {
      const within = marks.slice(-6);
      element.hidden = !within.length;
      update(within);
    },
  };
}
