/** The form that creates an experiment, generated from the schema of its settings in the OpenAPI document. */

import { ask, at } from "./api.js";
import { controlsOf, readAll, schemasOf } from "./controls.js";
import { dialog, field, sentence } from "./dialogs.js";
import { h } from "./dom.js";

/** Settings that are always shown, in this order; all others are under "More settings". */
const MAIN = ["arms", "rewards", "reward_timeout", "default_reward", "reward_aggregation", "holdout"];

/** Settings that a new experiment does not need. */
const NOT_OFFERED = ["paused_arms"];

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
    controls = controlsOf(await schemasOf("ExperimentSettings")).filter(({ name }) => !NOT_OFFERED.includes(name));
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
      const chosen = readAll(controls, (values) => ({
        name: nameInput.value.trim() ? null : "An experiment needs a name.",
        arms: (values.arms ?? []).length < 2 ? "An experiment needs at least two arms, one per line." : null,
      }));
      await ask("PUT", at(nameInput.value.trim()), chosen);
    },
  });
  if (created) location.hash = `#/${nameInput.value.trim()}/connect`;
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
