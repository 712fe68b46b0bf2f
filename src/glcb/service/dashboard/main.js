/** Routing: the overview, the pages of an experiment, and who uses them. */

import { armPage } from "./arm.js";
import { connectPage } from "./connect.js";
import { h } from "./dom.js";
import { evaluationPage } from "./evaluation.js";
import { evaluationsPage } from "./evaluations.js";
import { experimentPage } from "./experiment.js";
import { historyPage } from "./history.js";
import { overviewPage } from "./overview.js";
import { segmentsPage } from "./segments.js";
import { listenToSignOut, loadSession } from "./session.js";
import { settingsPage } from "./settings.js";

const NAME = "([a-z0-9][a-z0-9_-]*)";
const ROUTES = [
  ["(?:#?/?)", overviewPage],
  [`#/${NAME}`, experimentPage],
  [`#/${NAME}/(arms)/(.+)`, armPage],
  [`#/${NAME}/(segments)`, segmentsPage],
  [`#/${NAME}/(history)`, historyPage],
  [`#/${NAME}/(evaluations)`, evaluationsPage],
  [`#/${NAME}/(evaluations)/(\\d+)`, evaluationPage],
  [`#/${NAME}/(settings)`, settingsPage],
  [`#/${NAME}/(connect)`, connectPage],
].map(([pattern, page]) => [new RegExp(`^${pattern}$`), page]);

const main = document.getElementById("main");
const trail = document.getElementById("trail");
let page = null;

function show() {
  const [parts, open] = route();
  page?.stop();
  main.replaceChildren();
  // The list of arms is part of the overview, so it has no page of its own.
  const steps = parts.map((text, place) => ({ text, path: parts.slice(0, place + 1) })).filter(({ text, path }) => text !== "arms" || path.length !== 2);
  trail.replaceChildren(
    ...[{ text: "Experiments", path: [] }, ...steps].map(({ text, path }, place, all) => {
      const href = `#/${path.map(encodeURIComponent).join("/")}`;
      return h("li", {}, place < all.length - 1 ? h("a", { href }, text) : h("span", { "aria-current": "page" }, text));
    }),
  );
  document.title = [...steps.map(({ text }) => text)].reverse().concat("glcb").join(" · ");
  page = open(main, ...parts);
}

/** Return the parts of the URL and the page that shows them. */
function route() {
  for (const [pattern, open] of ROUTES) {
    const match = location.hash.match(pattern);
    if (match) return [match.slice(1).map(decoded), (where, name, _, id) => open(where, name, id)];
  }
  return [[], notFound];
}

/** Decode a part of the URL that a person may have typed. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
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
listenToSignOut(show);
loadSession();
show();
