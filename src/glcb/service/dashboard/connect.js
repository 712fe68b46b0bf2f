/** How an application uses an experiment: code to copy, and whether its first decision and reward have arrived. */

import { ask, at } from "./api.js";
import { announce, h, mark, say } from "./dom.js";
import { errorsIn } from "./errors.js";
import { many } from "./format.js";
import { live } from "./live.js";
import { tabs } from "./tabs.js";

const LANGUAGES = { python: "Python", javascript: "JavaScript", curl: "curl" };

/** Show the page until stopped. */
export function connectPage(main, name) {
  const steps = checklist(name, true);
  const code = codePanel(name);
  const zeros = h("p", { class: "hint" });
  main.append(
    tabs(name, "connect"),
    h("div", { class: "heading" }, h("div", {}, h("h1", {}, "Connect an application"), h("p", { class: "hint" }, `Ask “${name}” for a decision, show the arm, and report what came of it.`))),
    steps.element,
    code.element,
    zeros,
  );
  return live(
    () => Promise.all([ask("GET", at(name)), ask("GET", at(name, "stats"))]),
    ([experiment, stats]) => {
      steps.update({ stats });
      code.update(experiment, stats);
      say(zeros, zerosInWords(experiment.settings));
    },
    errorsIn(main),
  );
}

function zerosInWords({ reward_timeout, default_reward }) {
  return default_reward === null
    ? "Report 0 as well if nothing happened: with clicks alone, every arm looks perfect. Or set a reward timeout and a default reward of 0."
    : `A decision without a reward counts as ${default_reward} after ${many(reward_timeout, "second")}.`;
}

/** Return the list of first steps; on the overview, it disappears after the first reward. */
export function checklist(name, always = false) {
  const step = (text) => {
    const element = h("li", { "data-ok": "null" }, h("span", { class: "visually-hidden" }), h("span", {}, text));
    return {
      element,
      update(done, detail) {
        if (done && element.dataset.ok === "null" && element.dataset.seen) announce(`${text}.`);
        mark(element, "data-seen", "true");
        mark(element, "data-ok", done ? "true" : "null");
        say(element.firstChild, done ? "done: " : "waiting: ");
        say(element.lastChild, done && detail ? `${text}: ${detail}` : text);
      },
    };
  };
  const decision = step("First decision received");
  const reward = step("First reward received");
  const title = h("h2", { id: "start-title" });
  const element = h(
    "section",
    { class: "panel first-steps", "aria-labelledby": "start-title", hidden: !always },
    title,
    h("ul", { class: "checks" }, h("li", { "data-ok": "true" }, h("span", { class: "visually-hidden" }, "done: "), "Experiment created"), decision.element, reward.element),
    always ? null : h("p", {}, h("a", { class: "button primary", href: `#/${name}/connect` }, "Connect an application")),
  );
  return {
    element,
    update({ stats }) {
      const { decisions, rewarded, pending } = stats.counts;
      say(title, decisions ? (rewarded ? "Connected" : "Waiting for the first reward") : "No decisions yet");
      decision.update(decisions > 0, many(decisions, "decision"));
      reward.update(rewarded > 0, `${many(rewarded, "reward")}, ${many(pending, "decision")} pending`);
      if (!always) element.hidden = rewarded > 0;
    },
  };
}

/** The code in each language, with a button that copies it. */
function codePanel(name) {
  let chosen = "python";
  let texts = {};
  const code = h("pre", { class: "code" });
  const copy = h("button", { class: "quiet" }, "Copy");
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(texts[chosen]);
    say(copy, "Copied");
    setTimeout(() => say(copy, "Copy"), 2000);
  });
  const choice = ([value, text]) =>
    h("label", {}, h("input", { type: "radio", name: "language", value, checked: value === chosen, onchange: () => show(value) }), h("span", {}, text));
  const show = (language) => {
    chosen = language;
    say(code, texts[language] ?? "");
  };
  return {
    element: h(
      "section",
      { class: "panel", "aria-labelledby": "code-title" },
      h("div", { class: "panel-head spread" }, h("h2", { id: "code-title" }, "Code"), h("fieldset", { class: "segments" }, h("legend", { class: "visually-hidden" }, "Language"), Object.entries(LANGUAGES).map(choice)), copy),
      h("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": "code-title" }, code),
    ),
    update({ settings }, stats) {
      texts = examples(name, new URL(".", document.baseURI).href.replace(/\/$/, ""), settings, exampleContext(stats.features));
      show(chosen);
    },
  };
}

/** Return a context with the features that the experiment knows, or with invented ones. */
function exampleContext(features) {
  const known = features.filter(({ kind }) => kind).slice(0, 4);
  if (!known.length) return { country: "FR", age: 31 };
  const value = ({ kind, range, values }) => (kind === "number" ? Math.round(((range?.[0] ?? 0) + (range?.[1] ?? 1)) / 2) : kind === "boolean" ? true : (values[0] ?? "FR"));
  return Object.fromEntries(known.map((feature) => [feature.name, value(feature)]));
}

function examples(name, url, { rewards }, context) {
  const json = JSON.stringify(context);
  const python = json.replaceAll(":true", ":True").replaceAll(":false", ":False").replaceAll('":', '": ').replaceAll(',"', ', "');
  const value = Array.isArray(rewards) ? rewards[1] : 1;
  return {
    python: [
      "from glcb.client import Client",
      "",
      `with Client("${url}", api_key="YOUR-API-KEY") as client:`,
      `    experiment = client.experiment("${name}")`,
      `    decision = experiment.decide(${python})`,
      "    print(decision.arm)                     # show this arm",
      `    experiment.reward(decision.id, ${value})       # when the outcome is known`,
    ].join("\n"),
    javascript: [
      `import { Client } from "${url}/glcb.js";`,
      "",
      `const experiment = new Client("${url}", { apiKey: "YOUR-API-KEY" }).experiment("${name}");`,
      `const { id, arm } = await experiment.decide(${json});`,
      "show(arm);",
      `await experiment.reward(id, ${value}); // when the outcome is known`,
    ].join("\n"),
    curl: [
      `curl ${url}/v1/experiments/${name}/decisions \\`,
      "  -H 'Authorization: Bearer YOUR-API-KEY' -H 'Content-Type: application/json' \\",
      `  -d '${JSON.stringify({ context }).replaceAll("'", "'\\''")}'`,
      "",
      "# The response has an arm and an id. When the outcome is known:",
      `curl ${url}/v1/experiments/${name}/decisions/ID/reward \\`,
      "  -H 'Authorization: Bearer YOUR-API-KEY' -H 'Content-Type: application/json' \\",
      `  -d '{"value": ${value}}'`,
    ].join("\n"),
  };
}
