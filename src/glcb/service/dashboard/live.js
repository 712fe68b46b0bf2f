/** Polls the service every two seconds while the page is visible, with growing pauses while it is unavailable. */

import { ApiError, Unavailable } from "./api.js";
import { announce, h, mark, say } from "./dom.js";

const INTERVAL = 2000;
const FIRST_PAUSE = 1000;
const MAX_PAUSE = 15_000;

/**
 * Poll until stopped. `load()` returns the data for `show(data)`; `rejected(error)` handles an ApiError and returns whether
 * to continue.
 */
export function live(load, show, rejected) {
  let stopped = false;
  let wake = () => {};
  const wait = (milliseconds) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, milliseconds);
      wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  const onVisible = () => document.visibilityState === "visible" && wake();
  document.addEventListener("visibilitychange", onVisible);

  const run = async () => {
    let failures = 0;
    while (!stopped) {
      if (document.visibilityState !== "visible") {
        await wait(2 ** 31 - 1);
        continue;
      }
      let pause = INTERVAL;
      try {
        const data = await load();
        if (stopped) return;
        if (failures) announce("Reconnected.");
        failures = 0;
        connected();
        show(data);
      } catch (error) {
        if (stopped) return;
        if (error instanceof ApiError) {
          connected();
          if (!(await rejected(error))) return;
          pause = 0;
        } else if (error instanceof Unavailable) {
          failures = error.reachable ? 1 : failures + 1;
          pause = Math.min(MAX_PAUSE, FIRST_PAUSE * 2 ** (failures - 1)) * (0.8 + 0.4 * Math.random());
          unavailable(error, pause, () => wake());
        } else throw error;
      }
      await wait(pause);
    }
  };
  run();
  return {
    /** Poll now. */
    now: () => wake(),
    stop() {
      stopped = true;
      document.removeEventListener("visibilitychange", onVisible);
      wake();
    },
  };
}

/**
 * Return a loader for requests that cost more: it repeats its last result for ten seconds, unless `isYoung(result)`, which
 * changes much. `forget()` ends this at once.
 */
export function slowly(load, isYoung) {
  let result = null;
  let until = 0;
  const loader = async () => {
    if (!result || performance.now() > until || isYoung(result)) {
      const asked = until;
      const loaded = await load();
      if (asked !== until) return loader(); // forgotten in the meantime
      result = loaded;
      until = performance.now() + 10_000;
    }
    return result;
  };
  loader.forget = () => {
    result = null;
    until = -performance.now();
  };
  return loader;
}

const banner = document.getElementById("banner");
const pulse = document.getElementById("pulse");
let countdown = 0;

/** Show that the service is available. */
export function connected() {
  clearInterval(countdown);
  banner.hidden = true;
  banner.replaceChildren();
  mark(pulse, "data-state", "live");
  say(pulse, "live");
}

function unavailable({ message, starting }, pause, again) {
  clearInterval(countdown);
  const state = starting ? "starting" : "offline";
  mark(pulse, "data-state", state);
  say(pulse, state);
  mark(banner, "data-state", state);
  if (banner.hidden) {
    // Screen readers skip the countdown, which changes every second.
    const counting = h("span", { class: "countdown", "aria-hidden": "true" });
    banner.replaceChildren(h("p", {}, h("span"), " ", counting), h("button", {}, "Retry now"));
    banner.hidden = false;
  }
  const [text, counting] = banner.querySelectorAll("span");
  say(text, `${message} ${starting ? "This page reconnects automatically." : "The page shows the last known state."}`);
  banner.querySelector("button").onclick = again;
  const until = Date.now() + pause;
  const tick = () => say(counting, `Next attempt in ${Math.max(1, Math.ceil((until - Date.now()) / 1000))} s.`);
  tick();
  countdown = setInterval(tick, 500);
}
