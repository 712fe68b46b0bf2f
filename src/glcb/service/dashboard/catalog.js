/** The table of arms of a catalog, which may have thousands: searched, sorted and paged by the service. */

import { ask, at } from "./api.js";
import { armHref, removeArm } from "./arms.js";
import { sentence } from "./dialogs.js";
import { draw, h, mark, say } from "./dom.js";
import { count, percent, plain } from "./format.js";
import { may } from "./session.js";

const PAGE = 25;
const TYPING = 250;
/** Titles of the columns with the names by which the service sorts them. */
const COLUMNS = { Arm: "name", Share: "share", Observed: "reward_mean", Predicted: "predicted", Rewards: "rewards", Decisions: "decisions" };
const MEANINGS = { Share: "of the decisions", Observed: "mean reward when it was chosen", Predicted: "mean prediction over recent contexts", Rewards: "learned from" };

/** Return the table; `changed()` is called after an arm is removed. */
export function catalogPanel(name, changed) {
  let query = { search: "", sort: "decisions", order: "desc", offset: 0 };
  let format = null;
  let timer = 0;
  let latest = 0;
  const search = h("input", { type: "search", name: "search", placeholder: "Search arms", "aria-label": "Search arms", autocomplete: "off" });
  const where = h("span", { class: "hint", role: "status" });
  const before = h("button", { class: "quiet", onclick: () => load({ offset: Math.max(0, query.offset - PAGE) }) }, "Previous");
  const after = h("button", { class: "quiet", onclick: () => load({ offset: query.offset + PAGE }) }, "Next");
  const titles = Object.entries(COLUMNS).map(([text, sort]) =>
    h("th", { scope: "col", "data-sort": sort }, h("button", { onclick: () => load({ sort, order: query.sort === sort && query.order === "desc" ? "asc" : "desc", offset: 0 }) }, text), MEANINGS[text] ? h("span", { class: "hint" }, MEANINGS[text]) : null),
  );
  const body = h("tbody");
  const table = h("table", { class: "numbers arms" }, h("thead", {}, h("tr", {}, titles, h("th", { scope: "col", class: "features" }, "Features"), h("td"))), body);
  const element = h(
    "section",
    { class: "panel", "aria-labelledby": "catalog-title" },
    h(
      "div",
      { class: "panel-head" },
      h("h2", { id: "catalog-title" }, "Arms"),
      h("p", { class: "hint" }, "Open an arm to see it over time."),
    ),
    h("div", { class: "tools" }, search, h("span", { class: "pages" }, where, before, after)),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": "catalog-title" }, table),
  );
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => load({ search: search.value.trim(), offset: 0 }), TYPING);
  });

  const load = async (changes) => {
    query = { ...query, ...changes };
    const mine = ++latest;
    let page;
    try {
      page = await ask("GET", `${at(name, "arms")}?${new URLSearchParams({ ...query, limit: PAGE })}`);
    } catch (error) {
      if (mine === latest) say(where, sentence(error.message));
      return;
    }
    if (mine !== latest) return;
    for (const title of titles) {
      const sorted = title.dataset.sort === query.sort;
      mark(title, "aria-sort", sorted ? (query.order === "desc" ? "descending" : "ascending") : null);
    }
    body.replaceChildren(...page.arms.map((arm) => row(name, arm, format, removed)));
    const last = query.offset + page.arms.length;
    say(where, page.total ? `${count(query.offset + 1)} to ${count(last)} of ${count(page.total)}` : "no arms found");
    before.disabled = query.offset === 0;
    after.disabled = last >= page.total;
  };
  const removed = () => {
    load({});
    changed();
  };
  return {
    element,
    update(data) {
      format = data.format;
      if (!body.contains(document.activeElement)) load({});
    },
  };
}

function row(name, arm, format, removed) {
  const bar = h("td", { class: "share" }, h("span", { class: "bar", "aria-hidden": "true" }), h("span", {}, percent(arm.share)));
  const features = Object.entries(arm.features ?? {}).map(([feature, value]) => `${feature} = ${shortened(value)}`).join(", ");
  const remove = h("button", { class: "quiet", "aria-label": `Remove ${arm.arm}`, onclick: () => removeArm(name, arm.arm, removed) }, "Remove");
  const element = h(
    "tr",
    {},
    h("th", { scope: "row" }, h("a", { href: armHref(name, arm.arm) }, arm.arm)),
    bar,
    [format.value(arm.reward_mean), format.value(arm.predicted), count(arm.rewards), count(arm.decisions)].map((text) => h("td", {}, text)),
    h("td", { class: "features", title: features }, arm.in_catalog ? features : "only in requests"),
    h("td", {}, arm.in_catalog && may("edit") ? remove : null),
  );
  draw(element, { color: "var(--accent)", share: `${100 * arm.share}%` });
  return element;
}

/** Return a feature as a short text; a vector by its length. */
function shortened(value) {
  if (typeof value === "number") return plain(value);
  if (Array.isArray(value) && value.length > 4) return `[${value.length} values]`;
  return typeof value === "string" ? value : JSON.stringify(value);
}
