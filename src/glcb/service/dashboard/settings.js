/** The settings of an experiment: edit, pause, archive, delete, export. */

import { ask, at } from "./api.js";
import { controlsOf, readAll, schemasOf } from "./controls.js";
import { clearProblems, dialog, field, showProblems } from "./dialogs.js";
import { announce, h, mark, say } from "./dom.js";
import { errorsIn } from "./errors.js";
import { changeState } from "./experiment.js";
import { live } from "./live.js";
import { may } from "./session.js";
import { tabs } from "./tabs.js";

/** Settings by what they are about; all others are under "More". */
const GROUPS = {
  Purpose: ["description", "hypothesis", "owner", "reward_unit"],
  Traffic: ["traffic", "holdout", "start_at", "end_at", "shadow"],
  Comparison: ["control", "baseline", "segments"],
  Guardrails: ["shares", "metrics", "guardrails", "trust_publishable"],
  Learning: ["exploration", "exploration_mode", "half_life", "reward_timeout", "default_reward", "reward_aggregation"],
};
const NOT_EDITED = ["state", "reason"];

/** Show the settings until stopped. */
export function settingsPage(main, name) {
  let experiment = null;
  const state = h("span", { class: "state" });
  const form = h("form", { class: "settings", novalidate: true });
  const loading = h("div", { class: "skeleton tall", "aria-hidden": "true" });
  const care = carePanel(name, () => experiment, () => loop.now());
  main.append(
    tabs(name, "settings"),
    h("div", { class: "heading" }, h("div", {}, h("h1", {}, "Settings ", state), h("p", { class: "hint" }, "Changes take effect with the next decision and are listed in the history."))),
    loading,
    form,
    care.element,
  );
  let schemas = null;
  let isFilled = false; // what a person is editing is never replaced
  const saved = () => {
    isFilled = false;
    loop.now();
  };
  const loop = live(
    async () => {
      schemas ??= await schemasOf("ExperimentChanges");
      return ask("GET", at(name));
    },
    (shown) => {
      experiment = shown;
      loading.hidden = true;
      mark(state, "data-state", shown.state);
      say(state, shown.state);
      care.update(shown);
      if (!isFilled) {
        const controls = controlsOf(schemas, shown.settings).filter(({ name: setting }) => !NOT_EDITED.includes(setting));
        fillForm(form, name, controls, saved);
        isFilled = true;
      }
      const fixed = !may("edit") || shown.state === "archived";
      form.querySelectorAll("input, select, textarea, button").forEach((control) => (control.disabled = fixed));
    },
    errorsIn(main),
  );
  return loop;
}

function fillForm(form, name, controls, saved) {
  const named = new Map(controls.map((control) => [control.name, control]));
  const groups = Object.entries(GROUPS).map(([title, settings]) => [title, settings.filter((setting) => named.has(setting))]);
  const listed = groups.flatMap(([, settings]) => settings);
  groups.push(["More", controls.map((control) => control.name).filter((setting) => !listed.includes(setting))]);
  const reason = h("input", { name: "reason", autocomplete: "off", maxlength: 500 });
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const save = h("button", { class: "primary" }, "Save changes");
  form.replaceChildren(
    ...groups
      .filter(([, settings]) => settings.length)
      .map(([title, settings]) => h("section", { class: "panel" }, h("h2", {}, title), h("div", { class: "settings-fields" }, settings.map((setting) => named.get(setting).element)))),
    h("section", { class: "panel save" }, field("Reason", reason, "Optional. Shown in the history."), problem, h("div", { class: "actions" }, save)),
  );
  form.onsubmit = async (event) => {
    event.preventDefault();
    clearProblems(form, problem);
    save.disabled = true;
    let changes = {};
    try {
      changes = readAll(controls);
      if (!Object.keys(changes).length) throw new Error("Nothing was changed.");
      await ask("PATCH", at(name), { ...changes, ...(reason.value.trim() ? { reason: reason.value.trim() } : {}) });
      announce("The settings were saved.");
      saved();
    } catch (error) {
      showProblems(form, problem, error, Object.keys(changes));
    } finally {
      save.disabled = false;
    }
  };
}

/** The panel with downloads, and with what ends an experiment. */
function carePanel(name, shown, changed) {
  const download = (text, path, file) => h("a", { class: "button", href: path, download: file }, text);
  const pausing = h("button", { onclick: () => changeState(shown()).then((done) => done && changed()) }, "Pause");
  const archiving = h("button", { onclick: () => archive(name).then((done) => done && changed()) }, "Archive");
  const deleting = h("button", { class: "danger", onclick: () => remove(name) }, "Delete");
  const ending = h("div", { class: "actions" }, pausing, archiving, deleting);
  const element = h(
    "div",
    { class: "two" },
    h(
      "section",
      { class: "panel", "aria-labelledby": "download-title" },
      h("div", { class: "panel-head" }, h("h2", { id: "download-title" }, "Download"), h("p", { class: "hint" }, "all decisions and rewards, or the model")),
      h(
        "div",
        { class: "actions" },
        download("Events as JSON lines", at(name, "export"), `${name}.jsonl`),
        download("Events as Parquet", `${at(name, "export")}?format=parquet`, `${name}.parquet`),
        download("Model", at(name, "model"), `${name}.glcb`),
      ),
    ),
    h("section", { class: "panel", "aria-labelledby": "end-title" }, h("div", { class: "panel-head" }, h("h2", { id: "end-title" }, "Pause or end"), h("p", { class: "hint" }, "a paused experiment can be resumed")), ending),
  );
  return {
    element,
    update({ state }) {
      say(pausing, state === "running" ? "Pause" : "Resume");
      pausing.hidden = archiving.hidden = state === "archived" || !may("edit");
      deleting.hidden = !may("admin");
      ending.parentElement.hidden = !may("edit");
    },
  };
}

const archive = (name) =>
  dialog({
    title: `Archive ${name}?`,
    text: "It takes no more decisions and rewards. Its numbers stay readable. Only the API can resume it.",
    button: "Archive",
    danger: true,
    act: () => ask("PATCH", at(name), { state: "archived" }),
  });

async function remove(name) {
  const input = h("input", { name: "name", autocomplete: "off", spellcheck: "false" });
  const done = await dialog({
    title: `Delete ${name}?`,
    text: "All decisions, rewards and everything learned are lost. Type the name of the experiment to confirm.",
    fields: [field("Name", input)],
    button: "Delete experiment",
    danger: true,
    act: () => {
      if (input.value.trim() !== name) throw new Error(`The name is ${name}.`);
      return ask("DELETE", at(name));
    },
  });
  if (done) location.hash = "#/";
}
