/** The page of one evaluation: the conclusion, values with intervals, values over time, and diagnostics. */

import { ask, at } from "./api.js";
import { chart } from "./chart.js";
import { palette } from "./curves.js";
import { dialog } from "./dialogs.js";
import { draw, h, mark, say } from "./dom.js";
import { errorsIn } from "./errors.js";
import { isWorking, policyNames, progressText } from "./evaluations.js";
import { count, moment, NONE, number, percent, rewardFormat } from "./format.js";
import { live } from "./live.js";
import { may } from "./session.js";
import { tabs } from "./tabs.js";

const ESTIMATORS = {
  dr: "doubly robust",
  snips: "self-normalized IPS",
  ips: "IPS",
  dm: "direct method (biased)",
  "clipped-ips": "clipped IPS",
  "switch-dr": "switch DR",
  "shrunk-dr": "shrunk DR",
};
const MAX_ARMS = 20;
const OK = { ok: "true", warning: "null", error: "false" };
const WORDS = { ok: "fine", warning: "warning", error: "do not use" };

/** Show an evaluation until stopped. */
export function evaluationPage(main, name, id) {
  let shown = null;
  let format = rewardFormat({ rewards: "binary" });
  const state = h("span", { class: "state" });
  const about = h("p", { class: "hint" }, "Loading…");
  const cancel = h("button", { hidden: true, onclick: () => stop("Cancel", "It stays in the list as canceled.") }, "Cancel");
  const remove = h("button", { hidden: true, onclick: () => stop("Delete", "Its results are lost.") }, "Delete");
  const bar = h("progress", { "aria-label": "Progress", hidden: true });
  const verdict = h("section", { class: "verdict", hidden: true, "aria-label": "Conclusion" });
  const values = valuesPanel();
  const curves = curvesPanel();
  const checks = h("div", { class: "two" });
  const support = h("div");
  const body = h("div", { hidden: true }, values.element, curves.element, checks, support);
  main.append(
    tabs(name, "evaluations"),
    h("div", { class: "heading" }, h("div", {}, h("h1", {}, `Evaluation ${id} `, state), about), h("div", { class: "actions" }, cancel, remove)),
    bar,
    verdict,
    body,
  );

  const stop = async (verb, text) => {
    const done = await dialog({
      title: `${verb} evaluation ${id}?`,
      text,
      button: `${verb} evaluation`,
      danger: true,
      act: () => ask("DELETE", at(name, "evaluations", id)),
    });
    if (done && verb === "Delete") location.hash = `#/${name}/evaluations`;
    else if (done) loop.now();
  };

  const update = ([experiment, evaluation]) => {
    if (shown?.state === evaluation.state && !isWorking(evaluation)) return;
    shown = evaluation;
    format = rewardFormat(experiment.settings);
    const working = isWorking(evaluation);
    mark(state, "data-state", evaluation.state === "failed" ? "broken" : evaluation.state);
    say(state, evaluation.state);
    cancel.hidden = !working || !may("edit");
    remove.hidden = working || !may("edit");
    const { progress, result } = evaluation;
    say(about, `${policyNames(evaluation.request).join(", ")} · ${moment(evaluation.created_at)}${working ? progressText(progress) : ""}`);
    bar.hidden = evaluation.state !== "running";
    mark(bar, "max", progress?.total || null);
    mark(bar, "value", progress ? progress.done : null);
    const level = result ? worst(result) : evaluation.state === "failed" ? "error" : "ok";
    const text = result?.conclusion ?? evaluation.reason;
    verdict.hidden = !text;
    mark(verdict, "data-level", level);
    if (text) verdict.replaceChildren(h("p", {}, text), ...remarks(result));
    body.hidden = !result;
    if (!result) return;
    values.update(result, format);
    curves.update(result, format);
    checks.replaceChildren(...diagnosticsPanels(result));
    support.replaceChildren(supportPanel(result));
  };

  const loop = live(() => Promise.all([ask("GET", at(name)), ask("GET", at(name, "evaluations", id))]), update, errorsIn(main));
  return {
    stop() {
      loop.stop();
      curves.stop();
    },
  };
}

/** Return the level of the log, or that of the worst policy if the log itself is usable. */
function worst({ level, policies }) {
  const order = ["ok", "warning", "error"];
  return level === "error" ? level : order[Math.max(...policies.map((policy) => order.indexOf(policy.level)), order.indexOf(level))];
}

function remarks(result) {
  if (!result) return [];
  const refused = Object.entries(result.refused).map(([reason, n]) => `${count(n)} × ${reason}`);
  const span = result.first_at ? ` from ${moment(result.first_at)} to ${moment(result.last_at)}` : "";
  const texts = [`${count(result.rows)} decisions${span}.`, ...result.notes];
  if (refused.length) texts.push(`Left out: ${refused.join(", ")}.`);
  return texts.map((text) => h("p", { class: "hint" }, text));
}

const panel = (id, title, hint, ...content) =>
  h("section", { class: "panel", "aria-labelledby": id }, h("div", { class: "panel-head" }, h("h2", { id }, title), h("p", { class: "hint" }, hint)), content);

const head = (texts) => h("thead", {}, h("tr", {}, texts.map((text) => h("th", { scope: "col" }, text))));

const scrolled = (label, table) => h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);

/** The table of values, for one estimator at a time. */
function valuesPanel() {
  let data = null;
  const select = h("select", { name: "estimator", onchange: () => fill() });
  const table = h("table", { class: "numbers policies" });
  const hint = "Mean reward per decision. The intervals hold at any time: look as often as you like.";
  const element = panel("values-title", "Values", hint, h("label", { class: "choice" }, "Estimator", select), scrolled("Values", table));

  const fill = () => {
    const [{ policies, replays, reference }, format] = data;
    const rows = policies.map((policy) => valueRow(policy, policy.estimates[select.value], policy.differences[select.value], reference, format));
    const played = replays.map((policy) => valueRow(policy, policy.estimates.replay, null, reference, format));
    const titles = ["Policy", "Value", "95% interval", `Better than ${reference}`, "95% interval", "Effective rows", "Largest weight"];
    table.replaceChildren(head(titles), h("tbody", {}, rows, played));
  };
  return {
    element,
    update(result, format) {
      data = [result, format];
      const names = Object.keys(result.policies[0]?.estimates ?? {});
      select.replaceChildren(...names.map((name) => h("option", { value: name }, ESTIMATORS[name] ?? name)));
      fill();
    },
  };
}

function valueRow(policy, estimate, difference, reference, format) {
  const { interval, difference_interval: gap } = policy;
  const between = (range, show) => (range ? `${show(range.low)} to ${show(range.high)}` : NONE);
  const plusMinus = ({ value, error }, show) => (error === null ? show(value) : `${show(value)} ± ${show(error).replace("+", "")}`);
  const verdict = gap && gap.low > 0 ? "better" : gap && gap.high < 0 ? "worse" : null;
  const level = h("span", { class: "level" }, policy.level === "ok" ? "" : WORDS[policy.level]);
  mark(level, "data-level", policy.level);
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, policy.name, " ", level),
    h("td", {}, estimate ? plusMinus(estimate, format.value) : NONE),
    h("td", {}, between(interval, format.value)),
    h("td", { "data-verdict": verdict }, difference && policy.name !== reference ? plusMinus(difference, format.difference) : NONE),
    h("td", {}, between(gap, format.difference)),
    h("td", {}, count(policy.effective_rows)),
    h("td", {}, number(policy.largest_weight)),
  );
}

/** The figure with the value of each policy as the log grew, and the interval of one of them. */
function curvesPanel() {
  let data = null;
  let format = rewardFormat({ rewards: "binary" });
  const colors = palette();
  const figure = chart({
    title: "Values over time",
    id: "curve-title",
    hint: "estimate after each part of the log; dashed: 95% interval",
    empty: "Shown for logs of at least 2,000 decisions.",
    format: (x) => format.value(x),
    tick: (x) => format.tick(x),
  });
  const select = h("select", { name: "band", onchange: () => fill() });
  const element = h("div", {}, figure.element);
  figure.element.querySelector(".panel-head").append(h("label", { class: "choice" }, "Interval of", select));

  const fill = () => {
    const policies = data.policies.filter(({ curve }) => curve.length);
    const rows = [...new Set(policies.flatMap(({ curve }) => curve.map((point) => point.rows)))].sort((a, b) => a - b);
    const times = new Map(policies.flatMap(({ curve }) => curve.map((point) => [point.rows, Date.parse(point.at) / 1000])));
    const color = colors(policies.map(({ name }) => name).slice(0, 8));
    const along = ({ curve }, field) => {
      const found = new Map(curve.map((point) => [point.rows, point[field]]));
      return rows.map((row) => found.get(row) ?? null);
    };
    const lines = policies.map((policy) => ({ name: policy.name, color: color(policy.name), values: along(policy, "value"), strong: policy.name === select.value }));
    const chosen = policies.find(({ name }) => name === select.value);
    const band = chosen ? ["low", "high"].map((end) => ({ name: `${chosen.name}, ${end}`, color: color(chosen.name), values: along(chosen, end), dash: [4, 4] })) : [];
    figure.update({ axis: "decisions", places: { decisions: rows, time: rows.map((row) => times.get(row)) }, curves: [...lines, ...band] });
  };
  return {
    element,
    update(result, rewards) {
      [data, format] = [result, rewards];
      const names = result.policies.filter(({ curve }) => curve.length).map(({ name }) => name);
      select.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
      select.value = names.find((name) => name !== result.reference) ?? names[0] ?? "";
      fill();
    },
    stop: () => figure.stop(),
  };
}

/** Return a panel with the checks of the log, and one with those of each policy. */
function diagnosticsPanels({ diagnostics, policies, replays }) {
  const list = (checks) =>
    h(
      "ul",
      { class: "checks" },
      checks.map(({ name, level, message }) => {
        const line = h("li", {}, h("span", { class: "visually-hidden" }, `${WORDS[level]}: `), h("strong", {}, name), ` ${message}`);
        mark(line, "data-ok", OK[level]);
        return line;
      }),
    );
  const groups = [...policies, ...replays].filter((policy) => policy.diagnostics.length);
  return [
    panel("log-title", "The log", "checks of the recorded decisions", list(diagnostics)),
    panel("checks-title", "The estimates", "checks of each policy", groups.map(({ name, diagnostics: own }) => [h("h3", {}, name), list(own)])),
  ];
}

/** Return the panel with the share of each arm, in the log and under each policy. */
function supportPanel({ arms, policies }) {
  const total = Object.values(arms).reduce((sum, n) => sum + n, 0) || 1;
  const names = Object.entries(arms).sort((a, b) => b[1] - a[1]).map(([arm]) => arm).slice(0, MAX_ARMS);
  const cell = (share) => {
    const element = h("td", { class: "share" }, h("span", { class: "bar", "aria-hidden": "true" }), h("span", {}, percent(share)));
    draw(element, { color: "var(--accent)", share: `${100 * (share ?? 0)}%` });
    return element;
  };
  const others = policies.filter(({ name }) => name !== "logged");
  const table = h(
    "table",
    { class: "numbers arms" },
    head(["Arm", "In the log", ...others.map(({ name }) => name)]),
    h(
      "tbody",
      {},
      names.map((arm) => h("tr", {}, h("th", { scope: "row" }, arm), cell(arms[arm] / total), others.map(({ shares }) => cell(shares[arm] ?? 0)))),
    ),
  );
  return panel("support-title", "Arms", "share of decisions; a policy can only be judged by arms that are in the log", scrolled("Arms", table));
}
