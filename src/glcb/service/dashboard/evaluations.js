/** The evaluations of an experiment: the list, and the form that starts one. */

import { ask, at } from "./api.js";
import { dialog, field } from "./dialogs.js";
import { h, keyed, mark, say } from "./dom.js";
import { errorsIn } from "./errors.js";
import { count, moment, percent } from "./format.js";
import { live } from "./live.js";
import { may } from "./session.js";
import { tabs } from "./tabs.js";

/** The order in which an evaluation passes its states: it is over in all but the first two. */
const WORKING = ["queued", "running"];

/** Show the list until stopped. */
export function evaluationsPage(main, name) {
  let experiment = null;
  const start = h("button", { class: "primary", hidden: true, onclick: () => startEvaluation(experiment) }, "New evaluation");
  const body = h("tbody");
  const columns = ["Policies", "Started", "State", "Conclusion"];
  const table = h(
    "table",
    { class: "numbers evaluations" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Evaluation"), columns.map((text) => h("th", { scope: "col" }, text)))),
    body,
  );
  const nothing = h("p", { class: "nothing", hidden: true }, "No evaluations yet.");
  const list = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Evaluations", hidden: true }, table);
  const loading = h("div", { class: "skeleton row", "aria-hidden": "true" });
  main.append(
    tabs(name, "evaluations"),
    h(
      "div",
      { class: "heading" },
      h(
        "div",
        {},
        h("h1", {}, "Evaluations"),
        h("p", { class: "hint" }, "What would another policy have earned? Estimated from the decisions of this experiment, which goes on unchanged."),
      ),
      start,
    ),
    h("section", { class: "panel" }, nothing, list, loading),
  );
  const rows = keyed(body, ({ id }) => id, (one) => row(name, one));
  return live(
    () => Promise.all([ask("GET", at(name)), ask("GET", at(name, "evaluations"))]),
    ([shown, { evaluations }]) => {
      experiment = shown;
      loading.hidden = true;
      start.hidden = !may("edit");
      list.hidden = !evaluations.length;
      nothing.hidden = Boolean(evaluations.length);
      rows(evaluations);
    },
    errorsIn(main),
  );
}

function row(name, { id, request, created_at }) {
  const state = h("span", { class: "state" });
  const conclusion = h("td", { class: "words" });
  const element = h(
    "tr",
    {},
    h("th", { scope: "row" }, h("a", { href: `#/${name}/evaluations/${id}` }, `Evaluation ${id}`)),
    h("td", { class: "words" }, policyNames(request).join(", ")),
    h("td", {}, moment(created_at)),
    h("td", {}, state),
    conclusion,
  );
  return [
    element,
    (now) => {
      mark(state, "data-state", now.state === "failed" ? "broken" : now.state);
      say(state, now.state === "running" ? `running${progressText(now.progress)}` : now.state);
      mark(conclusion, "data-level", now.level ?? null);
      say(conclusion, now.conclusion ?? now.reason ?? "");
    },
  ];
}

/** Return the names of the policies of a request. */
export const policyNames = ({ policies }) => (Array.isArray(policies) ? policies : Object.keys(policies));

/** Return whether an evaluation is not over yet. */
export const isWorking = ({ state }) => WORKING.includes(state);

/** Return the progress as a text that follows the state. */
export const progressText = (progress) =>
  progress ? `, ${progress.stage} ${count(progress.done)} of ${count(progress.total)} (${percent(progress.total ? progress.done / progress.total : 0, 0)})` : "";

/** Show the form, start the evaluation and open its page. */
async function startEvaluation({ name, settings }) {
  const arms = Array.isArray(settings.arms) ? settings.arms : Object.keys(settings.arms);
  const policies = h("input", { name: "policies", value: "linucb, best-fixed-arm, uniform", autocomplete: "off", spellcheck: "false" });
  const exploration = h("input", { name: "exploration", type: "number", min: 0, max: 1, step: "any", placeholder: settings.exploration });
  const halfLife = h("input", { name: "half_life", type: "number", min: 1, step: 1, placeholder: settings.half_life ?? "none" });
  const without = h("select", { name: "without" }, h("option", { value: "" }, "none"), arms.map((arm) => h("option", { value: arm }, arm)));
  let id = null;
  const started = await dialog({
    title: "New evaluation",
    text: "Each line that you fill in adds a policy to the comparison.",
    fields: [
      field("Policies", policies, "Separated by commas: a policy such as linucb, best-fixed-arm, uniform, or arm=NAME."),
      field("Exploration", exploration, "The same experiment with another exploration."),
      field("Half-life", halfLife, "The same experiment, but forgetting."),
      field("Without arm", without, "The same experiment without this arm."),
    ],
    button: "Evaluate",
    act: async () => {
      const chosen = {};
      for (const policy of policies.value.split(",").map((text) => text.trim()).filter(Boolean)) chosen[policy] = policy;
      if (exploration.value) chosen[`exploration ${exploration.value}`] = { exploration: Number(exploration.value) };
      if (halfLife.value) chosen[`half-life ${halfLife.value}`] = { half_life: Number(halfLife.value) };
      if (without.value) chosen[`without ${without.value}`] = { without: [without.value] };
      if (!Object.keys(chosen).length) throw new Error("An evaluation needs at least one policy.");
      ({ id } = await ask("POST", at(name, "evaluations"), { policies: chosen }));
    },
  });
  if (started) location.hash = `#/${name}/evaluations/${id}`;
}
