/** How a page reacts when the service rejects a request. */

import { key } from "./api.js";
import { h } from "./dom.js";
import { askForKey, sentence } from "./dialogs.js";

/** Return a function that handles an error: it asks for an API key, or shows the error instead of the page. */
export const errorsIn = (main) => async (error) => {
  if (error.status === 401 || error.code === "forbidden") {
    const first = error.status === 401 && !key.get();
    await askForKey(first ? null : sentence(error.message));
    return true;
  }
  const missing = error.code === "unknown_experiment";
  const titles = {
    unknown_experiment: "Experiment not found",
    unknown_evaluation: "Evaluation not found",
    experiment_broken: "This experiment cannot be loaded",
  };
  main.replaceChildren(
    h(
      "section",
      { class: "empty" },
      h("h1", {}, titles[error.code] ?? "The request was rejected"),
      h("p", {}, missing ? "It may have been deleted, or your API key does not have access to it." : sentence(error.message)),
      h("p", {}, h("a", { class: "button", href: "#/" }, "All experiments")),
    ),
  );
  return false;
};
