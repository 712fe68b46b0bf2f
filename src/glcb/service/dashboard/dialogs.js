/** Modal dialogs. Errors are shown inside the dialog. */

import { key } from "./api.js";
import { h, say } from "./dom.js";

/**
 * Show a dialog. `act(form)` runs on submit and throws an error to keep it open. Return whether it succeeded; with
 * `must` the dialog cannot be canceled.
 */
export function dialog({ title, text, fields = [], button, danger = false, must = false, act }) {
  const problem = h("p", { class: "problem", role: "alert", hidden: true });
  const submit = h("button", { class: danger ? "danger" : "primary" }, button);
  const cancel = must ? null : h("button", { type: "button", class: "quiet", onclick: () => close(false) }, "Cancel");
  const form = h(
    "form",
    { novalidate: true },
    h("h2", { id: "dialog-title" }, title),
    text ? h("p", { class: "hint" }, text) : null,
    fields,
    problem,
    h("div", { class: "actions" }, cancel, submit),
  );
  const box = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  let close;
  const leave = () => close(false);
  const done = new Promise((resolve) => {
    close = (result) => {
      removeEventListener("hashchange", leave);
      box.close();
      box.remove();
      resolve(result);
    };
  });
  box.addEventListener("cancel", (event) => {
    event.preventDefault();
    if (!must) close(false);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.hidden = true;
    try {
      await act(form);
      close(true);
    } catch (error) {
      say(problem, sentence(error.message));
      problem.hidden = false;
    } finally {
      submit.disabled = false;
    }
  });
  addEventListener("hashchange", leave);
  document.body.append(box);
  box.showModal();
  return done;
}

/** Return a labeled form field with a hint below it. */
export function field(label, control, hint) {
  const id = `field-${control.name}`;
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    control,
    hint ? h("p", { class: "hint", id: `${id}-hint` }, hint) : null,
  );
}

/** Ask for an API key. */
export function askForKey(why) {
  const input = h("input", { name: "key", type: "password", autocomplete: "off", spellcheck: "false" });
  return dialog({
    title: "API key required",
    text: why,
    fields: [field("API key", input, "Created with “glcb keys add”. It is stored in this tab until you close it.")],
    button: "Continue",
    must: true,
    act: async () => {
      const text = input.value.trim();
      if (!/^[\x21-\x7e]+$/.test(text)) throw new Error("An API key consists of letters, digits, - and _.");
      key.set(text);
      dispatchEvent(new Event("glcb-key"));
    },
  });
}

/** Capitalize a text and end it with a period. */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
