/** Instructions for an experiment without decisions. */

import { h, say } from "./dom.js";
import { many } from "./format.js";

/** Return a panel that is shown until the first decision. */
export function firstSteps(name) {
  const url = new URL(`v1/experiments/${name}/decisions`, document.baseURI);
  const decide = `curl ${url} -H 'Content-Type: application/json' -d '{"context": {"country": "FR", "age": 31}}'`;
  const reward = `curl ${url}/ID/reward -H 'Content-Type: application/json' -d '{"value": 1}'`;
  const code = (label, text) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, h("pre", {}, text));
  const zeros = h("p");
  const element = h(
    "section",
    { class: "panel first-steps", "aria-labelledby": "start-title", hidden: true },
    h("h2", { id: "start-title" }, "No decisions yet"),
    h("p", {}, "Request a decision for a context. The response contains an arm and an id:"),
    code("How to request a decision", decide),
    h("p", {}, "Then report the reward of that decision (this page updates automatically):"),
    code("How to report a reward", reward),
    zeros,
  );
  return {
    element,
    update({ experiment, stats }) {
      const { reward_timeout, default_reward } = experiment.settings;
      say(
        zeros,
        default_reward === null
          ? "Report 0 as well if nothing happened: with clicks alone, every arm looks perfect. Or create the experiment with a reward timeout and a default reward of 0."
          : `A decision without a reward counts as ${default_reward} after ${many(reward_timeout, "second")}.`,
      );
      element.hidden = stats.counts.decisions > 0;
    },
  };
}
