/* global uPlot */
/** A figure with a legend that shows the values under the pointer, and the same data as a table. */

import { draw, h, keyed, say } from "./dom.js";
import { count, moment } from "./format.js";

const HEIGHT = 240;
const TABLE_ROWS = 20;

/** Labels of the time axis by the seconds between them, in uPlot's format. */
const TIMES = [
  [31_536_000, "{YYYY}", null, null, null, null, null, null, 1],
  [2_419_200, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [86_400, "{D} {MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{D} {MMM}", null, "\n{D} {MMM}", null, null, null, 1],
  [0.001, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1],
];

/** Steps between the labels of the time axis, in seconds: no label is shown twice. Longer ones are days, months and years. */
const SECONDS = [1, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10_800, 14_400, 21_600, 28_800, 43_200];
const DAYS = [1, 2, 3, 5, 7, 10, 15, 30, 60, 90, 180, 365, 730, 1825];
const STEPS = [...SECONDS, ...DAYS.map((days) => 86_400 * days)];

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * Return a panel with a figure. `format(value)` formats a value and `tick(value)` an axis label; `stacked` curves fill the
 * space from 0 to 1, and others stay within `bounds()`; `withZero` shows a line at zero. Its `update({axis, places, curves, marks})` shows curves
 * `{name, color, values}`, which may have a `band` with low and high values; `axis` is "decisions" or "time". Marks
 * `{at, label, text}` are numbered lines at the time of a change. Without data, the text `empty` is shown, or nothing.
 */
export function chart({ title, id, hint, empty = null, format, tick, stacked = false, withZero = false, bounds = () => [-Infinity, Infinity] }) {
  const legend = h("ul", { class: "legend" });
  const where = h("p", { class: "where hint" });
  const plot = h("div", { class: "plot", role: "img" });
  const nothing = h("p", { class: "nothing" }, empty ?? "");
  const table = h("table", { class: "numbers" });
  const box = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${title} as a table` }, table);
  const details = h("details", { class: "as-table" }, h("summary", {}, "Show as a table"), box);
  const element = h(
    "section",
    { class: "panel chart", "aria-labelledby": id },
    h("div", { class: "panel-head" }, h("h2", { id }, title), hint ? h("p", { class: "hint" }, hint) : null),
    legend,
    plot,
    nothing,
    where,
    details,
  );
  let drawn = null;
  let shape = "";
  let shown = null;

  const entries = keyed(legend, (curve) => curve.name, (curve) => {
    const value = h("span", { class: "number" });
    const entry = h("li", {}, h("span", { class: "chip" }), h("span", { class: "name" }, curve.name), value);
    return [
      entry,
      (now) => {
        draw(entry, { color: `var(${now.color})` });
        say(value, format(now.value));
      },
    ];
  });

  const showValues = (place) => {
    const { axis, x, curves } = shown;
    const at = place ?? x.length - 1;
    entries(curves.map((curve) => ({ ...curve, value: place === null ? last(curve.values) : curve.values[at] })));
    const when = moment(shown.times[at] * 1000);
    const near = place === null ? null : nearest(shown.marks, x[at], (x.at(-1) - x[0]) / 60);
    if (near) say(where, `${near.label}: ${near.text}`);
    else say(where, place === null ? `Up to decision ${count(shown.decisions[at])}, ${when}` : `At decision ${count(shown.decisions[at])}, ${when}`);
    plot.setAttribute(
      "aria-label",
      `${title} over ${axis === "time" ? "time" : "decisions"}; latest ${curves.map((curve) => `${curve.name} ${format(last(curve.values))}`).join(", ")}`,
    );
  };

  const rebuild = () => {
    drawn?.destroy();
    drawn = shown && new uPlot(options(), data(), plot);
  };

  const data = () => {
    if (!stacked) return [shown.x, ...shown.curves.map((curve) => curve.values), ...banded().flatMap((curve) => curve.band)];
    const sums = shown.x.map(() => 0);
    const layers = shown.curves.map((curve) => curve.values.map((value, place) => (value === null ? null : (sums[place] += value))));
    return [shown.x, ...layers.reverse()];
  };

  const banded = () => shown.curves.filter((curve) => curve.band);

  /** Draw the line at zero and those of the marks behind the curves, with the labels of marks on top. */
  const drawMarks = (self) => {
    const { ctx, bbox } = self;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = color("--edge");
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    if (withZero) {
      const y = Math.round(self.valToPos(0, "y", true));
      ctx.fillRect(bbox.left, y, bbox.width, devicePixelRatio);
    }
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    let free = -Infinity;
    for (const { at, label } of shown.marks) {
      const x = Math.round(self.valToPos(at, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      if (x < free) continue; // a label would cover another one
      ctx.fillText(label, x, bbox.top - 4 * devicePixelRatio);
      free = x + 16 * devicePixelRatio;
    }
    ctx.restore();
  };

  const options = () => {
    const ink = color("--quiet");
    const font = "12px system-ui, sans-serif";
    const axis = { stroke: ink, font, grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
    const edge = { stroke: "transparent", points: { show: false }, spanGaps: true };
    const whole = (_, values) => values.map((value) => (Number.isInteger(value) ? count(value) : ""));
    const curves = stacked ? [...shown.curves].reverse() : shown.curves;
    return {
      width: plot.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      padding: [shown.marks.length ? 16 : 8, shown.axis === "time" ? 28 : 16, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { show: (_, place) => !stacked && place <= curves.length, size: 7 } },
      scales: { x: { time: shown.axis === "time" }, y: { range: stacked ? [0, 1] : (_, low, high) => padded(withZero ? Math.min(low, 0) : low, withZero ? Math.max(high, 0) : high, bounds()) } },
      axes: [
        { ...axis, size: shown.axis === "time" ? 44 : 30, gap: 6, grid: { show: false }, ...(shown.axis === "time" ? { values: TIMES, incrs: STEPS, space: 76 } : { values: whole }) },
        { ...axis, size: 52, gap: 8, values: (_, values) => values.map(tick) },
      ],
      series: [
        {},
        ...curves.map((curve) =>
          stacked
            ? { stroke: color("--surface"), width: 1, fill: color(curve.color), points: { show: false } }
            : { stroke: color(curve.color), width: curve.strong ? 2.5 : 2, dash: curve.dash, points: { show: known(curve.values) === 1, size: 7 }, spanGaps: true },
        ),
        ...banded().flatMap(() => [edge, edge]),
      ],
      bands: banded().map((curve, place) => {
        const low = 1 + curves.length + 2 * place;
        return { series: [low + 1, low], fill: `${color(curve.color)}26` };
      }),
      hooks: { drawClear: [drawMarks], setCursor: [(self) => showValues(self.cursor.idx ?? null)] },
    };
  };

  const fillTable = () => {
    if (!details.open || !shown) return;
    const step = Math.max(1, Math.ceil(shown.x.length / TABLE_ROWS));
    const rows = shown.x.map((_, place) => place).filter((place) => (shown.x.length - 1 - place) % step === 0);
    const names = ["Decision", "Time", ...shown.curves.map((curve) => curve.name)];
    table.replaceChildren(
      h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
      h(
        "tbody",
        {},
        rows.map((place) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, count(shown.decisions[place])),
            h("td", {}, moment(shown.times[place] * 1000)),
            shown.curves.map((curve) => h("td", {}, format(curve.values[place]))),
          ),
        ),
      ),
    );
  };
  details.addEventListener("toggle", fillTable);

  const resized = new ResizeObserver(() => drawn?.setSize({ width: plot.clientWidth, height: HEIGHT }));
  resized.observe(plot);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", rebuild);

  return {
    element,
    update({ axis, places, curves, marks = [] }) {
      const enough = places.decisions.length > 1 && curves.some((curve) => last(curve.values) !== null);
      plot.hidden = legend.hidden = details.hidden = where.hidden = !enough;
      nothing.hidden = enough;
      element.hidden = !enough && empty === null;
      if (!enough) return;
      const placed = marks.map((mark) => ({ ...mark, at: axis === "time" ? mark.at : along(places, mark.at) }));
      shown = { axis, x: places[axis], decisions: places.decisions, times: places.time, curves, marks: placed };
      const now = JSON.stringify([axis, curves.map(({ name, band }) => [name, !band]), !marks.length]);
      if (drawn && now === shape) drawn.setData(data());
      else rebuild();
      shape = now;
      showValues(drawn.cursor.idx ?? null);
      fillTable();
    },
    stop() {
      resized.disconnect();
      dark.removeEventListener("change", rebuild);
      drawn?.destroy();
    },
  };
}

const known = (values) => values.filter((value) => value !== null).length;

const last = (values) => values.findLast((value) => value !== null) ?? null;

/** Return the range of the vertical axis, with a margin around the curves but never beyond what is possible. */
function padded(low, high, [least, most]) {
  if (low === null || !Number.isFinite(low)) return [0, 1];
  const margin = (high - low || Math.abs(high) || 1) * 0.08;
  return [Math.max(least, low >= 0 ? Math.max(0, low - margin) : low - margin), Math.min(most, high + margin)];
}

/** Return the number of decisions at a time. */
function along({ time, decisions }, at) {
  const after = time.findIndex((one) => one >= at);
  if (after < 0) return at > time.at(-1) ? decisions.at(-1) : null;
  if (after === 0) return decisions[0];
  const share = (at - time[after - 1]) / (time[after] - time[after - 1] || 1);
  return decisions[after - 1] + share * (decisions[after] - decisions[after - 1]);
}

/** Return the mark next to a place, or null if none is near. */
function nearest(marks, place, reach) {
  const [first] = [...marks].sort((a, b) => Math.abs(a.at - place) - Math.abs(b.at - place));
  return first && Math.abs(first.at - place) <= reach ? first : null;
}
