/** Asks again every two seconds while somebody looks; when the service is lost, ever less often until it is back. */

import { Lost, Refused } from "./api.js";
import { announce, h, mark, say } from "./dom.js";

const EVERY = 2000;
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 15_000;

/**
 * Load and show until stopped. `load()` returns what `show(data)` shows; `refused(error)` deals with a refusal and returns
 * whether to go on.
 */
export function live(load, show, refused) {
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
  const look = () => document.visibilityState === "visible" && wake();
  document.addEventListener("visibilitychange", look);

  const run = async () => {
    let failures = 0;
    while (!stopped) {
      if (document.visibilityState !== "visible") {
        await wait(2 ** 31 - 1);
        continue;
      }
      let pause = EVERY;
      try {
        const data = await load();
        if (stopped) return;
        if (failures) announce("Connected again.");
        failures = 0;
        connected();
        show(data);
      } catch (error) {
        if (stopped) return;
        if (error instanceof Refused) {
          connected();
          if (!(await refused(error))) return;
          pause = 0;
        } else if (error instanceof Lost) {
          failures = error.near ? 1 : failures + 1;
          pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (failures - 1)) * (0.8 + 0.4 * Math.random());
          lost(error, pause, () => wake());
        } else throw error;
      }
      await wait(pause);
    }
  };
  run();
  return {
    /** Ask at once. */
    now: () => wake(),
    stop() {
      stopped = true;
      document.removeEventListener("visibilitychange", look);
      wake();
    },
  };
}

const banner = document.getElementById("banner");
const pulse = document.getElementById("pulse");
let countdown = 0;

/** Show that the service answers. */
export function connected() {
  clearInterval(countdown);
  banner.hidden = true;
  banner.replaceChildren();
  mark(pulse, "data-state", "live");
  say(pulse, "live");
}

function lost({ message, starting }, pause, again) {
  clearInterval(countdown);
  const state = starting ? "starting" : "lost";
  mark(pulse, "data-state", state);
  say(pulse, state);
  mark(banner, "data-state", state);
  if (banner.hidden) {
    // What changes every second is not read aloud.
    const counting = h("span", { class: "countdown", "aria-hidden": "true" });
    banner.replaceChildren(h("p", {}, h("span"), " ", counting), h("button", {}, "Try now"));
    banner.hidden = false;
  }
  const [said, counting] = banner.querySelectorAll("span");
  say(said, `${message} ${starting ? "This page goes on by itself." : "What you see is what was known last."}`);
  banner.querySelector("button").onclick = again;
  const until = Date.now() + pause;
  const tick = () => say(counting, `Next try in ${Math.max(1, Math.ceil((until - Date.now()) / 1000))} s.`);
  tick();
  countdown = setInterval(tick, 500);
}
