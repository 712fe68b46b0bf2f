/** Who uses the dashboard: signing in and out, and what their role permits. */

import { ask } from "./api.js";
import { dialog, field } from "./dialogs.js";
import { announce, h, say } from "./dom.js";

const ROLES = ["read", "edit", "admin"];
const TITLES = { read: "viewer", edit: "editor", admin: "administrator" };

/** What is permitted until the service has said who this is; it checks every request itself. */
let session = { name: "", role: "read" };

/** Return whether the role of the person includes another one. */
export const may = (role) => ROLES.indexOf(session.role) >= ROLES.indexOf(role);

/** Ask the service who this is. */
export async function loadSession() {
  try {
    session = await ask("GET", "v1/session");
  } catch {
    session = { name: "", role: "read" };
  }
  showPerson();
}

/** Ask for an API key and exchange it for a session. */
export async function signIn(why) {
  const input = h("input", { name: "api_key", type: "password", autocomplete: "off", spellcheck: "false", autofocus: true });
  await dialog({
    title: "Sign in",
    text: why ?? "The dashboard of this service needs an API key.",
    fields: [field("API key", input, "Created with “glcb keys add NAME --role read”, edit or admin. The browser keeps a session, not the key.")],
    button: "Sign in",
    must: true,
    act: async () => {
      const text = input.value.trim();
      if (!/^[\x21-\x7e]+$/.test(text)) throw new Error("An API key consists of letters, digits, - and _.");
      session = await ask("POST", "v1/session", { api_key: text });
    },
  });
  announce(`Signed in as ${session.name}.`);
  showPerson();
}

const person = document.getElementById("person");

function showPerson() {
  person.hidden = !session.name;
  say(person.querySelector("summary"), `${session.name}, ${TITLES[session.role]}`);
  person.querySelectorAll("button").forEach((button) => {
    button.hidden = !session.expires_at; // a proxy has signed in this person
  });
}

/** Listen to the buttons that sign out; `left()` is called afterwards. */
export function listenToSignOut(left) {
  const leave = async (path) => {
    await ask("DELETE", path).catch(() => {}); // a session that is over needs no sign-out
    person.open = false;
    session = { name: "", role: "read" };
    showPerson();
    left();
  };
  document.getElementById("sign-out").addEventListener("click", () => leave("v1/session"));
  document.getElementById("sign-out-everywhere").addEventListener("click", () => leave("v1/sessions"));
}
