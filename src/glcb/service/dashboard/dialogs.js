/** Modal dialogs and form fields. Errors are shown inside the dialog, those of a field below it. */

import { h } from "./dom.js";

/** Codes of errors of the service that are about a value. */
const INVALID = ["invalid_request", "invalid_settings"];

/** Errors of several fields, by the names of their controls. */
export class FieldErrors extends Error {
  constructor(messages) {
    super(Object.values(messages).join(" "));
    this.messages = messages;
  }
}

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
    clearProblems(form, problem);
    try {
      await act(form);
      close(true);
    } catch (error) {
      showProblems(form, problem, error);
    } finally {
      submit.disabled = false;
    }
  });
  addEventListener("hashchange", leave);
  document.body.append(box);
  box.showModal();
  return done;
}

/** Remove the errors of an earlier attempt. */
export function clearProblems(form, problem) {
  problem.hidden = true;
  form.querySelectorAll(".field .problem").forEach((element) => element.remove());
  form.querySelectorAll("[aria-invalid]").forEach((control) => control.removeAttribute("aria-invalid"));
}

/**
 * Show each error at its field and move to the first; an error that is about no field is shown in `problem`. `changed` are
 * the names of the fields that were sent.
 */
export function showProblems(form, problem, error, changed = []) {
  const messages = error instanceof FieldErrors ? error.messages : named(form, error, changed);
  const controls = Object.keys(messages).map((name) => form.elements.namedItem(name));
  controls.forEach((control, place) => {
    control.setAttribute("aria-invalid", "true");
    control.closest("details")?.setAttribute("open", "");
    control.closest(".field").append(h("p", { class: "problem" }, sentence(Object.values(messages)[place])));
  });
  const more = controls.length > 1 ? `${controls.length} fields need attention.` : controls.length ? "One field needs attention." : null;
  problem.textContent = more ?? sentence(error.message);
  problem.hidden = false;
  controls[0]?.focus();
}

/** Return the message of an error of the service at the field that it names, or at the only one sent. */
function named(form, { message, field, code }, changed) {
  const name = field ?? (changed.length === 1 && INVALID.includes(code) ? changed[0] : null);
  return name !== null && form.elements.namedItem(name)?.closest(".field") ? { [name]: message } : {};
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

/** Capitalize a text and end it with a period. */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
