/** How a page reacts when the service rejects a request. */

import { h } from "./dom.js";
import { sentence } from "./dialogs.js";
import { signIn } from "./session.js";

/** Return a function that handles an error: it lets the person sign in, or shows the error instead of the page. */
export const errorsIn = (main) => async (error) => {
  if (error.status === 401 || error.code === "forbidden") {
    await signIn(/required/.test(error.message) ? null : sentence(error.message));
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
      h("p", {}, missing ? "It may have been deleted, or you do not have access to it." : sentence(error.message)),
      h("p", {}, h("a", { class: "button", href: "#/" }, "All experiments")),
    ),
  );
  return false;
};
