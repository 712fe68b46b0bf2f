/** What to do with an experiment that has not decided anything yet. */

import { h } from "./dom.js";

/** Return a panel that is there until the first decision. */
export function firstSteps(name) {
  const url = new URL(`v1/experiments/${name}/decisions`, document.baseURI);
  const decide = `curl ${url} -H 'Content-Type: application/json' -d '{"context": {"country": "FR", "age": 31}}'`;
  const reward = `curl ${url}/ID/reward -H 'Content-Type: application/json' -d '{"value": 1}'`;
  const code = (label, text) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, h("pre", {}, text));
  const element = h(
    "section",
    { class: "panel first-steps", "aria-labelledby": "start-title", hidden: true },
    h("h2", { id: "start-title" }, "Waiting for the first decision"),
    h("p", {}, "Ask for a decision with whatever is known of a visitor. The answer has an arm and an id:"),
    code("How to ask for a decision", decide),
    h("p", {}, "Tell what it brought, under that id. From then on this page moves by itself:"),
    code("How to send a reward", reward),
  );
  return {
    element,
    update({ stats }) {
      element.hidden = stats.counts.decisions > 0;
    },
  };
}
