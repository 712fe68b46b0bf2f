/** What a page does when the service refuses to show it. */

import { key } from "./api.js";
import { h } from "./dom.js";
import { askForKey, sentence } from "./dialogs.js";

/** Return a function that deals with a refusal: asks for a key, or says what is wrong in place of the page. */
export const refusedIn = (main) => async (error) => {
  if (error.status === 401 || error.code === "forbidden") {
    const first = error.status === 401 && !key.get();
    await askForKey(first ? null : sentence(error.message));
    return true;
  }
  const missing = error.code === "unknown_experiment";
  const titles = { unknown_experiment: "There is no such experiment", experiment_broken: "This experiment is broken" };
  main.replaceChildren(
    h(
      "section",
      { class: "empty" },
      h("h1", {}, titles[error.code] ?? "The service refused"),
      h("p", {}, missing ? "It may have been deleted, or your key belongs to others." : sentence(error.message)),
      h("p", {}, h("a", { class: "button", href: "#/" }, "All experiments")),
    ),
  );
  return false;
};
