/** Dialogs: something is filled in or confirmed, tried, and what the service says against it is shown in place. */

import { key } from "./api.js";
import { h, say } from "./dom.js";

/**
 * Ask for something. `act(form)` tries it and raises what went wrong. Return whether it was done; with `must`, there
 * is no way out but doing it.
 */
export function dialog({ title, text, fields = [], button, danger = false, must = false, act }) {
  const trouble = h("p", { class: "trouble", role: "alert", hidden: true });
  const submit = h("button", { class: danger ? "danger" : "primary" }, button);
  const cancel = must ? null : h("button", { type: "button", class: "quiet", onclick: () => close(false) }, "Cancel");
  const form = h(
    "form",
    { novalidate: true },
    h("h2", { id: "dialog-title" }, title),
    text ? h("p", { class: "hint" }, text) : null,
    fields,
    trouble,
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
    trouble.hidden = true;
    try {
      await act(form);
      close(true);
    } catch (error) {
      say(trouble, sentence(error.message));
      trouble.hidden = false;
    } finally {
      submit.disabled = false;
    }
  });
  addEventListener("hashchange", leave);
  document.body.append(box);
  box.showModal();
  return done;
}

/** A labeled field; `hint` stands below it. */
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

/** Ask for a key until one is given. */
export function askForKey(why) {
  const input = h("input", { name: "key", type: "password", autocomplete: "off", spellcheck: "false" });
  return dialog({
    title: "This service needs a key",
    text: why,
    fields: [field("Key", input, "Made with “glcb keys add”. It stays in this tab and is gone when you close it.")],
    button: "Use this key",
    must: true,
    act: async () => {
      const given = input.value.trim();
      if (!/^[\x21-\x7e]+$/.test(given)) throw new Error("A key is a word of letters, digits, - and _.");
      key.set(given);
      dispatchEvent(new Event("glcb-key"));
    },
  });
}

/** Begin with a capital letter, and end with a full stop. */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
