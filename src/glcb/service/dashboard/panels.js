/** Smaller panels: health, rewards, and what came in that could not be used. */

import { draw, h, keyed, mark, say } from "./dom.js";
import { count, many, percent } from "./format.js";

const panel = (id, title, hint, ...content) =>
  h("section", { class: "panel", "aria-labelledby": id }, h("div", { class: "panel-head" }, h("h2", { id }, title), h("p", { class: "hint" }, hint)), content);

/** Return what should be so, and whether it is. */
export function healthPanel() {
  const list = h("ul", { class: "checks" });
  const words = { true: "good", false: "wrong", null: "too early to tell" };
  const update = keyed(list, ({ check }) => check, () => {
    const verdict = h("span", { class: "unseen" });
    const text = h("span");
    const element = h("li", {}, verdict, text);
    return [
      element,
      (check) => {
        mark(element, "data-ok", String(check.ok));
        say(verdict, `${words[check.ok]}: `);
        say(text, check.text);
      },
    ];
  });
  return { element: panel("health-title", "Health", "what should be so", list), update: ({ stats }) => update(stats.health) };
}

/** Return what is wrong, for the top of the page; nothing is seen of it while all is well. */
export function attention() {
  const list = h("ul");
  const element = h("section", { class: "attention", "aria-label": "What is wrong", hidden: true }, list);
  const update = keyed(list, ({ check }) => check, () => {
    const line = h("li");
    return [line, ({ text }) => say(line, text)];
  });
  return {
    element,
    update({ stats }) {
      const wrong = stats.health.filter(({ ok }) => ok === false);
      element.hidden = !wrong.length;
      update(wrong);
    },
  };
}

/** Return where the rewards of all decisions are. */
export function rewardsPanel() {
  const bar = h("div", { class: "parts", "aria-hidden": "true" }, ["rewarded", "waiting", "expired"].map((kind) => h("span", { "data-kind": kind })));
  const list = h("dl", { class: "pairs" });
  const update = keyed(list, ({ label }) => label, pair);
  return {
    element: panel("rewards-title", "Rewards", "what became of the decisions", bar, list),
    update({ experiment, stats }) {
      const { issued, rewarded, waiting, expired } = stats.counts;
      const shares = Object.fromEntries(
        Object.entries({ rewarded, waiting, expired }).map(([kind, n]) => [kind, issued ? `${(100 * n) / issued}%` : "0%"]),
      );
      draw(bar, shares);
      const reward_timeout = experiment.reward_timeout === null ? "for ever" : many(experiment.reward_timeout, "second");
      update([
        { label: "rewarded", kind: "rewarded", text: count(rewarded) },
        { label: "waiting", kind: "waiting", text: count(waiting) },
        { label: "expired without a reward", kind: "expired", text: count(expired) },
        { label: "came too late, since the start", text: count(stats.refused.closed_decision ?? 0) },
        { label: "a decision waits", text: reward_timeout },
      ]);
    },
  };
}

function pair(first) {
  const label = h("dt", { "data-kind": first.kind ?? null }, first.label);
  const value = h("dd", { class: "number" });
  const element = h("div", {}, label, value);
  return [
    element,
    ({ text, note }) => {
      say(value, text);
      mark(element, "title", note ?? null);
    },
  ];
}

const REFUSALS = {
  invalid_json: "bodies that were no JSON",
  unsupported_media_type: "bodies that did not say what they are",
  too_large: "requests that were too large",
  request_timeout: "requests that never became complete",
  invalid_request: "requests that did not fit",
  invalid_context: "contexts that were no row of values",
  invalid_reward: "rewards that cannot be",
  unknown_arm: "arms that do not exist",
  unknown_decision: "rewards of decisions nobody made",
  closed_decision: "rewards that came too late",
  duplicate_reward: "second rewards of a decision",
  experiment_paused: "decisions while paused",
  experiment_archived: "requests while archived",
  idempotency_key_reused: "keys used for two requests",
  too_many: "more than the limits allow",
};

const PROBLEMS = {
  missing: "missing",
  infinite: "infinite",
  changed: "of another type than before",
  unreadable: "not a number, text or boolean",
  far: "far out of range",
  shared: "new, and no room was left",
};

/** Return what was refused since the service started, and what in the contexts could not be used as it came. */
export function inputsPanel() {
  const fine = h("p", { class: "nothing" }, "Everything that came could be used.");
  const refused = h("dl", { class: "pairs" });
  const odd = h("dl", { class: "pairs" });
  const oddTitle = h("h3", {}, "Values in contexts");
  const refusedTitle = h("h3", {}, "Refused since the service started");
  const updateRefused = keyed(refused, ({ label }) => label, pair);
  const updateOdd = keyed(odd, ({ label }) => label, pair);
  return {
    element: panel("inputs-title", "Inputs", "what could not be used", fine, refusedTitle, refused, oddTitle, odd),
    update({ stats }) {
      const refusals = Object.entries(stats.refused).map(([code, n]) => ({ label: REFUSALS[code] ?? code.replaceAll("_", " "), text: count(n) }));
      const problems = stats.features.flatMap(({ name, problems: own }) =>
        Object.entries(own).map(([problem, n]) => ({
          label: `${name} was ${PROBLEMS[problem] ?? problem}`,
          text: `${count(n)} × (${percent(n / Math.max(1, stats.counts.decisions))})`,
          n,
        })),
      );
      if (stats.unmapped) problems.push({ label: "values of features without a place", text: `${count(stats.unmapped)} ×`, n: stats.unmapped });
      problems.sort((a, b) => b.n - a.n);
      updateRefused(refusals);
      updateOdd(problems.slice(0, 8));
      refusedTitle.hidden = !refusals.length;
      oddTitle.hidden = !problems.length;
      fine.hidden = Boolean(refusals.length || problems.length);
    },
  };
}
