/** The panel with the workers of a service that has several. */

import { ask } from "./api.js";
import { h, keyed, mark, say } from "./dom.js";
import { count, many } from "./format.js";

const INTERVAL = 5000;
const TITLES = ["Worker", "State", "Host", "Process", "Partitions", "Experiments", "Loaded"];

/** Return the panel, which polls until stopped; hidden if the service is one process. */
export function workersPanel() {
  const summary = h("p", { class: "hint" });
  const [table, showWorkers] = tableOf(TITLES);
  const head = h("div", { class: "panel-head" }, h("h2", { id: "workers-title" }, "Workers"), summary);
  const element = h("section", { class: "panel workers", "aria-labelledby": "workers-title", hidden: true }, head, table);
  const show = (workers) => {
    const ready = workers.filter(({ state }) => state === "ready").length;
    say(summary, `${count(ready)} of ${many(workers.length, "worker")} ready`);
    showWorkers(workers);
    element.hidden = false;
  };
  let timer = 0;
  let stopped = false;
  const poll = async () => {
    let found = null;
    if (document.visibilityState === "visible") found = await ask("GET", "v1/workers").catch(() => null); // the page says why
    if (stopped || found?.workers.length === 0) return;
    if (found) show(found.workers);
    timer = setTimeout(poll, INTERVAL);
  };
  poll();
  return {
    element,
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

/** Return a table of workers, and a function that fills it. */
function tableOf(titles) {
  const body = h("tbody");
  const heading = h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title))));
  const update = keyed(body, ({ name }) => name, () => {
    const row = h("tr", {}, titles.map((_, place) => (place ? h("td") : h("th", { scope: "row" }))));
    const fill = (worker) => {
      textsOf(worker).forEach((text, place) => say(row.children[place], text));
      const bad = worker.state === "away" || worker.trouble;
      mark(row, "data-state", bad ? "bad" : worker.state === "ready" && !worker.draining ? "good" : "early");
    };
    return [row, fill];
  });
  const table = h("table", { class: "numbers" }, heading, body);
  return [h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Workers" }, table), update];
}

function textsOf(worker) {
  const notes = [worker.state, worker.draining && "draining", worker.restarting && "to be restarted"];
  const state = notes.filter(Boolean).join(", ") + (worker.trouble ? `: ${worker.trouble}` : "");
  const numbers = [worker.partitions, worker.experiments, worker.loaded].map(count);
  return [worker.name, state, worker.host, String(worker.process), ...numbers];
}
