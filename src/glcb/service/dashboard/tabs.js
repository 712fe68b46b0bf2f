/** The navigation between the pages of an experiment. */

import { h } from "./dom.js";

const PAGES = { Overview: "", Segments: "segments", History: "history", Evaluations: "evaluations", Settings: "settings", Connect: "connect" };

/** Return the navigation; `current` is the path of the page within the experiment. */
export function tabs(name, current) {
  const list = h(
    "ul",
    {},
    Object.entries(PAGES).map(([text, path]) =>
      h("li", {}, h("a", { href: `#/${name}${path ? `/${path}` : ""}`, "aria-current": path === current ? "page" : null }, text)),
    ),
  );
  const element = h("nav", { class: "tabs", "aria-label": "Pages of the experiment" }, list);
  requestAnimationFrame(() => list.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }));
  return element;
}
