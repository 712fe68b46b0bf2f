/** Routing: the overview, or the experiment named in the URL. */

import { key } from "./api.js";
import { h } from "./dom.js";
import { experimentPage } from "./experiment.js";
import { overviewPage } from "./overview.js";

const main = document.getElementById("main");
const trail = document.getElementById("trail");
const forget = document.getElementById("forget-key");
let page = null;

function show() {
  const [, name] = location.hash.match(/^#\/([a-z0-9][a-z0-9_-]*)$/) ?? [];
  page?.stop();
  main.replaceChildren();
  trail.replaceChildren(
    h("li", {}, name ? h("a", { href: "#/" }, "Experiments") : h("span", { "aria-current": "page" }, "Experiments")),
    name ? h("li", {}, h("span", { "aria-current": "page" }, name)) : "",
  );
  document.title = name ? `${name} · glcb` : "glcb";
  forget.hidden = !key.get();
  page = name ? experimentPage(main, name) : overviewPage(main);
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
