/** Routing: the overview, an experiment, its evaluations, or one of them. */

import { key } from "./api.js";
import { h } from "./dom.js";
import { evaluationPage } from "./evaluation.js";
import { evaluationsPage } from "./evaluations.js";
import { experimentPage } from "./experiment.js";
import { overviewPage } from "./overview.js";

const NAME = "([a-z0-9][a-z0-9_-]*)";
const ROUTES = [
  ["(?:#?/?)", overviewPage],
  [`#/${NAME}`, experimentPage],
  [`#/${NAME}/(evaluations)`, evaluationsPage],
  [`#/${NAME}/(evaluations)/(\\d+)`, evaluationPage],
].map(([pattern, page]) => [new RegExp(`^${pattern}$`), page]);

const main = document.getElementById("main");
const trail = document.getElementById("trail");
const forget = document.getElementById("forget-key");
let page = null;

function show() {
  const [parts, open] = route();
  page?.stop();
  main.replaceChildren();
  const steps = ["", ...parts].map((_, place) => ["Experiments", ...parts].slice(0, place + 1));
  trail.replaceChildren(
    ...steps.map((path, place) => {
      const text = path.at(-1);
      const href = `#/${path.slice(1).join("/")}`;
      return h("li", {}, place < parts.length ? h("a", { href }, text) : h("span", { "aria-current": "page" }, text));
    }),
  );
  document.title = [...parts].reverse().concat("glcb").join(" · ");
  forget.hidden = !key.get();
  page = open(main, ...parts);
}

/** Return the parts of the URL and the page that shows them. */
function route() {
  for (const [pattern, open] of ROUTES) {
    const match = location.hash.match(pattern);
    if (match) return [match.slice(1), (where, name, _, id) => open(where, name, id)];
  }
  return [[], notFound];
}

function notFound(where) {
  where.append(
    h(
      "section",
      { class: "empty" },
      h("h1", {}, "Page not found"),
      h("p", {}, `There is no page ${location.hash}.`),
      h("p", {}, h("a", { class: "button", href: "#/" }, "All experiments")),
    ),
  );
  return { stop() {} };
}

addEventListener("hashchange", () => {
  if (location.hash === "#main") return;
  show();
  scrollTo(0, 0);
  main.focus({ preventScroll: true });
});
addEventListener("glcb-key", () => {
  forget.hidden = !key.get();
});
forget.addEventListener("click", () => {
  key.forget();
  show();
});
show();
