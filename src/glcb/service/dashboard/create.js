/** The form that makes an experiment. */

import { ask, at } from "./api.js";
import { dialog, field } from "./dialogs.js";
import { h } from "./dom.js";

const POLICIES = ["glcb", "linucb", "lints", "epsilon-greedy", "ucb1", "uniform"];

/** Ask for what an experiment needs, make it, and go to it. */
export async function createExperiment() {
  const range = h(
    "div",
    { class: "pair", hidden: true },
    field("Lowest reward", h("input", { name: "low", type: "number", step: "any", value: "0" })),
    field("Highest reward", h("input", { name: "high", type: "number", step: "any", value: "10" })),
  );
  const rewards = h("select", { name: "rewards" }, option("binary", "0 or 1, such as a click"), option("range", "a number within a range"));
  rewards.addEventListener("change", () => {
    range.hidden = rewards.value === "binary";
  });
  let name;
  const made = await dialog({
    title: "New experiment",
    fields: [
      field(
        "Name",
        h("input", { name: "name", required: true, maxlength: 64, autocomplete: "off", spellcheck: "false", autofocus: true }),
        "Lower-case letters, digits, - and _.",
      ),
      field("Arms", h("textarea", { name: "arms", rows: 4, spellcheck: "false" }), "What can be decided for, one in each line."),
      field("Rewards", rewards),
      range,
      field(
        "Hold-out",
        percentInput("holdout", 5),
        "Per cent of the decisions that are left to chance, to tell what the bandit brings.",
      ),
      more(),
    ],
    button: "Create",
    act: async (form) => {
      name = form.elements.name.value.trim();
      if (!name) throw new Error("An experiment needs a name.");
      await ask("PUT", at(name), settings(form.elements));
    },
  });
  if (made) location.hash = `#/${name}`;
}

const option = (value, text = value) => h("option", { value }, text);

const percentInput = (name, value) => h("input", { name, type: "number", min: 0, max: 100, step: "any", value });

function more() {
  return h(
    "details",
    {},
    h("summary", {}, "More settings"),
    field("Policy", h("select", { name: "policy" }, POLICIES.map((policy) => option(policy)))),
    field("Exploration", percentInput("exploration", 5), "Per cent of the decisions for an arm that the rule would not have taken."),
    field(
      "Patience",
      h("input", { name: "reward_timeout", type: "number", min: 0, step: "any" }),
      "Seconds that a decision waits for its reward. Empty: for ever.",
    ),
    field(
      "Reward if none came",
      h("input", { name: "default_reward", type: "number", step: "any" }),
      "Learned when the reward_timeout is over. Empty: nothing is learned.",
    ),
    field(
      "ExperimentCache",
      h("input", { name: "half_life", type: "number", min: 1, step: 1 }),
      "Decisions after which all evidence counts half, for a world that changes. Empty: everything counts for ever.",
    ),
  );
}

function settings(elements) {
  const arms = elements.arms.value.split("\n").map((line) => line.trim()).filter(Boolean);
  if (arms.length < 2) throw new Error("An experiment needs two arms or more, one in each line.");
  const given = {
    arms,
    policy: elements.policy.value,
    holdout: share(elements.holdout, "The hold-out"),
    exploration: share(elements.exploration, "The exploration"),
  };
  if (elements.rewards.value === "range") given.rewards = [filled(elements.low, "The lowest reward"), filled(elements.high, "The highest reward")];
  for (const name of ["reward_timeout", "default_reward", "half_life"]) {
    if (elements[name].value !== "") given[name] = Number(elements[name].value);
  }
  return given;
}

function filled(input, what) {
  if (input.value === "") throw new Error(`${what} must be a number.`);
  return Number(input.value);
}

function share(input, what) {
  const given = filled(input, what) / 100;
  if (!(given >= 0 && given <= 1)) throw new Error(`${what} must be between 0 and 100 per cent.`);
  return given;
}
