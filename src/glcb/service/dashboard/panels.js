/** The panels on health, guardrails, rewards and input problems. */

import { draw, h, keyed, mark, say } from "./dom.js";
import { count, many, percent, plain, quantities, rewardFormat } from "./format.js";

const panel = (id, title, hint, ...content) =>
  h("section", { class: "panel", "aria-labelledby": id }, h("div", { class: "panel-head" }, h("h2", { id }, title), h("p", { class: "hint" }, hint)), content);

/** Return the health checks as one line that opens, unless something is wrong: then the failed ones are shown above it. */
export function healthPanel() {
  const list = h("ul", { class: "checks" });
  const summary = h("summary", { class: "health" });
  const words = { true: "passed", false: "failed", null: "not enough data" };
  const update = keyed(list, ({ check }) => check, () => {
    const verdict = h("span", { class: "visually-hidden" });
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
  return {
    element: h("details", { class: "panel health-checks" }, summary, list),
    update({ stats }) {
      const number = (ok) => stats.health.filter((check) => check.ok === ok).length;
      const [passed, failed, early] = [number(true), number(false), number(null)];
      mark(summary, "data-state", failed ? "bad" : passed ? "good" : "early");
      const parts = [`${many(passed, "check")} passed`];
      if (failed) parts.push(`${count(failed)} failed`);
      if (early) parts.push(`${count(early)} without enough data`);
      say(summary, parts.join(", "));
      update(stats.health);
    },
  };
}

/** Return the failed health checks and the broken guardrails for the top of the page; hidden while all is well. */
export function attention() {
  const list = h("ul");
  const element = h("section", { class: "attention", "aria-label": "What is wrong", hidden: true }, list);
  const update = keyed(list, ({ key }) => key, () => {
    const line = h("li");
    return [line, ({ text }) => say(line, text)];
  });
  return {
    element,
    update({ stats }) {
      const failed = stats.health.filter(({ ok }) => ok === false).map(({ check, text }) => ({ key: check, text }));
      const broken = (stats.guardrails ?? []).filter((one) => one.broken).map((one) => ({ key: guardrailKey(one), text: brokenInWords(one) }));
      element.hidden = !failed.length && !broken.length;
      update([...broken, ...failed]);
    },
  };
}

const guardrailKey = ({ metric, arm, against }) => `${metric} ${arm} ${against}`;

const reference = (against) => (against === "control" ? "the control" : "random assignment");

const PAUSED = { arm: " The arm was paused.", experiment: " The experiment was paused.", nothing: "" };

function brokenInWords(guardrail) {
  const whose = guardrail.arm ? ` of “${guardrail.arm}”` : "";
  return `Guardrail: ${guardrail.metric}${whose} is more than ${limitInWords(guardrail)} ${reference(guardrail.against)}.${PAUSED[guardrail.pauses]}`;
}

/** 5% below, 0.2 above */
function limitInWords({ max_fall, max_rise, relative }) {
  const change = max_rise ?? max_fall;
  return `${relative ? percent(change, Number.isInteger(1000 * change / 10) ? 0 : 1) : plain(change)} ${max_rise === null ? "below" : "above"}`;
}

const THEN = { arm: "otherwise the arm is paused", experiment: "otherwise the experiment is paused", nothing: "nothing is paused" };

/** Return the panel with the guardrails, each with what it measures, and the second metrics; hidden without any. */
export function guardrailsPanel() {
  const list = h("div", { class: "guardrails" });
  const metrics = h("dl", { class: "pairs" });
  const element = panel("guardrails-title", "Guardrails", "what must not get worse", list, metrics);
  const updateMetrics = keyed(metrics, ({ label }) => label, pair);
  const update = keyed(list, ({ key }) => key, guardrailRule);
  return {
    element,
    update({ experiment, stats }) {
      const { control } = experiment.settings;
      const measured = Object.entries(stats.metrics ?? {});
      const rules = new Map();
      for (const one of stats.guardrails ?? []) {
        if (one.arm && one.arm === control && one.against === "control") continue; // nothing to compare
        const key = `${one.metric} ${one.against} ${one.pauses} ${limitInWords(one)}`;
        const value = one.metric === "reward" ? shownAs(experiment.settings) : metricFormat(experiment, one.metric);
        rules.set(key, { key, rule: one, value, rows: [...(rules.get(key)?.rows ?? []), one] });
      }
      element.hidden = !rules.size && !measured.length;
      update([...rules.values()]);
      updateMetrics(measured.map(([name, { n, mean }]) => ({ label: `mean ${name}, all arms`, text: metricFormat(experiment, name)(mean), note: many(n, "value") })));
    },
  };
}

const shownAs = (settings) => rewardFormat(settings).value;

/** Return the format of a metric, in its unit. */
function metricFormat({ settings }, name) {
  const { unit, range } = settings.metrics?.[name] ?? {};
  return quantities(unit, range);
}

/** Return the element of a guardrail: what must hold, and for each arm, or for the bandit, whether it does. */
function guardrailRule({ rule }) {
  const body = h("tbody");
  const columns = [rule.arm ? "Arm" : "", "State", rule.metric, reference(rule.against)];
  const table = h("table", { class: "numbers" }, h("thead", {}, h("tr", {}, columns.map((text) => (text ? h("th", { scope: "col" }, text) : h("td"))))), body);
  const title = h("h3", {}, `${rule.metric} at most ${limitInWords(rule)} ${reference(rule.against)}`);
  const rows = keyed(body, ({ one }) => one.arm ?? "", ({ one }) => {
    const state = h("span", { class: "outcome" });
    const [value, compared] = [h("td"), h("td")];
    const row = h("tr", {}, h("th", { scope: "row" }, one.arm ?? "bandit"), h("td", {}, state), value, compared);
    return [
      row,
      ({ one: now, value: format }) => {
        mark(state, "data-ok", now.broken ? "false" : now.low > 0 ? "true" : "null");
        say(state, now.broken ? "broken" : now.low > 0 ? "kept" : "undecided");
        say(value, format(now.value));
        say(compared, format(now.reference));
      },
    ];
  });
  const element = h("section", {}, title, h("p", { class: "hint" }, THEN[rule.pauses]), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title.textContent }, table));
  return [element, ({ rows: measured, value }) => rows(measured.map((one) => ({ one, value })))];
}

/** Return the panel with the outcomes of all decisions. */
export function rewardsPanel() {
  const bar = h("div", { class: "parts", "aria-hidden": "true" }, ["rewarded", "pending", "closed"].map((kind) => h("span", { "data-kind": kind })));
  const list = h("dl", { class: "pairs" });
  const update = keyed(list, ({ label }) => label, pair);
  return {
    element: panel("rewards-title", "Rewards", "decisions by outcome", bar, list),
    update({ experiment, stats }) {
      const { decisions, rewarded, pending, timed_out, evicted, removed } = stats.counts;
      const shares = Object.fromEntries(
        Object.entries({ rewarded, pending, closed: timed_out + evicted + removed }).map(([kind, n]) => [kind, decisions ? `${(100 * n) / decisions}%` : "0%"]),
      );
      draw(bar, shares);
      const { reward_timeout } = experiment.settings;
      update([
        { label: "rewarded", kind: "rewarded", text: count(rewarded) },
        { label: "pending", kind: "pending", text: count(pending) },
        { label: "timed out", kind: "closed", text: count(timed_out) },
        { label: "evicted", kind: "closed", text: count(evicted) },
        { label: "removed", kind: "closed", text: count(removed) },
        { label: "rejected as too late, since startup", text: count(stats.errors.closed_decision ?? 0) },
        { label: "reward timeout", text: reward_timeout === null ? "none" : many(reward_timeout, "second") },
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

const ERRORS = {
  invalid_json: "invalid JSON",
  unsupported_media_type: "wrong content type",
  too_large: "request too large",
  request_timeout: "incomplete request",
  invalid_request: "invalid request",
  invalid_context: "invalid context",
  invalid_reward: "invalid reward",
  unknown_arm: "unknown arm",
  unknown_decision: "reward for an unknown decision",
  closed_decision: "reward for a closed decision",
  duplicate_reward: "duplicate reward",
  experiment_paused: "decision while paused",
  experiment_archived: "request while archived",
  idempotency_key_reused: "idempotency key reused",
  too_many: "limit exceeded",
};

const PROBLEMS = {
  missing: "missing",
  infinite: "infinite",
  type_changed: "of a different type than before",
  unsupported: "a list or a date, or a vector of another length",
  out_of_range: "far outside the range",
  hashed: "a new value without a free slot",
};

/** Return the panel with rejected requests and with values that could not be used as sent; hidden without any. */
export function inputsPanel() {
  const rejected = h("dl", { class: "pairs" });
  const problemList = h("dl", { class: "pairs" });
  const problemTitle = h("h3", {}, "Values in contexts");
  const rejectedTitle = h("h3", {}, "Rejected requests since startup");
  const updateRejected = keyed(rejected, ({ label }) => label, pair);
  const updateProblems = keyed(problemList, ({ label }) => label, pair);
  const element = panel("inputs-title", "Inputs", "rejected requests and unusable values", rejectedTitle, rejected, problemTitle, problemList);
  return {
    element,
    update({ stats }) {
      const errors = Object.entries(stats.errors).map(([code, n]) => ({ label: ERRORS[code] ?? code.replaceAll("_", " "), text: count(n) }));
      const problems = stats.features.flatMap(({ name, problems: own }) =>
        Object.entries(own).map(([problem, n]) => ({
          label: `${name} was ${PROBLEMS[problem] ?? problem}`,
          text: `${count(n)} × (${percent(n / Math.max(1, stats.counts.decisions))})`,
          n,
        })),
      );
      if (stats.unmapped) problems.push({ label: "unmapped values", text: `${count(stats.unmapped)} ×`, n: stats.unmapped });
      problems.sort((a, b) => b.n - a.n);
      updateRejected(errors);
      updateProblems(problems.slice(0, 8));
      rejectedTitle.hidden = !errors.length;
      problemTitle.hidden = !problems.length;
      element.hidden = !errors.length && !problems.length;
    },
  };
}
