/** The panel with the shards and nodes of a service that is several processes. */

import { ask } from "./api.js";
import { h, keyed, mark, say } from "./dom.js";
import { count, many } from "./format.js";

const INTERVAL = 5000;
const SHARDS = ["Shard", "State", "Node", "Process", "Experiments", "Loaded"];
const NODES = ["Node", "Address", "State", "CPUs", "Shards"];

/** Return the panel, which polls until stopped; hidden if the service is one process. */
export function clusterPanel() {
  const summary = h("p", { class: "hint" });
  const [shardTable, showShards] = table("Shards", SHARDS, ({ number }) => number, shardCells);
  const [nodeTable, showNodes] = table("Nodes", NODES, ({ id }) => id, nodeCells);
  const head = h("div", { class: "panel-head" }, h("h2", { id: "cluster-title" }, "Shards and nodes"), summary);
  const element = h("section", { class: "panel cluster", "aria-labelledby": "cluster-title", hidden: true }, head, shardTable, nodeTable);
  const show = ({ shards, nodes }) => {
    const ready = shards.filter(({ state }) => state === "ready").length;
    say(summary, `${count(ready)} of ${many(shards.length, "shard")} ready, ${many(nodes.length, "node")}`);
    const hosts = new Map(nodes.map(({ id, host }) => [id, `${host} ${id.slice(0, 8)}`]));
    showShards(shards.map((shard) => ({ ...shard, place: hosts.get(shard.node) ?? shard.node?.slice(0, 8) ?? "–" })));
    showNodes(nodes);
    element.hidden = false;
  };
  let timer = 0;
  let stopped = false;
  const poll = async () => {
    let found = null;
    if (document.visibilityState === "visible") found = await ask("GET", "v1/shards").catch(() => null); // the page says why
    if (stopped || found?.shards.length === 0) return;
    if (found) show(found);
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

/** Return a table, and a function that fills it: `cells(item)` returns the texts of a row and its state. */
function table(name, titles, key, cells) {
  const body = h("tbody");
  const heading = h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title))));
  const update = keyed(body, key, () => {
    const row = h("tr", {}, titles.map((_, place) => (place ? h("td") : h("th", { scope: "row" }))));
    const fill = (item) => {
      const [texts, state] = cells(item);
      texts.forEach((text, place) => say(row.children[place], text));
      mark(row, "data-state", state);
    };
    return [row, fill];
  });
  const element = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": name }, h("table", { class: "numbers" }, heading, body));
  return [element, update];
}

function shardCells(shard) {
  const state = shard.trouble ? `${shard.state}: ${shard.trouble}` : shard.state;
  const texts = [String(shard.number), state, shard.place, String(shard.process ?? "–"), count(shard.experiments), count(shard.loaded)];
  return [texts, shard.state === "away" || shard.trouble ? "bad" : shard.state === "ready" ? "good" : "early"];
}

function nodeCells(node) {
  const state = node.draining ? "draining" : node.cpus ? "ready" : "without shards";
  const texts = [`${node.host} ${node.id.slice(0, 8)}`, node.address, state, String(node.cpus), count(node.shards)];
  return [texts, node.draining ? "early" : "good"];
}
