/** Talks to the service: JSON both ways, the key of this tab, errors in the service's own words. */

const STORED = "glcb-key";
const REWARD_TIMEOUT = 10_000;

/** The key of this tab; it is gone when the tab is closed. */
export const key = {
  get: () => sessionStorage.getItem(STORED),
  set: (text) => sessionStorage.setItem(STORED, text),
  forget: () => sessionStorage.removeItem(STORED),
};

/** The service refused. */
export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The service does not answer; or it does, but cannot do what it should for now: then it is `near`, or even `starting`. */
export class Lost extends Error {
  constructor(message, near = false, starting = false) {
    super(message);
    this.near = near;
    this.starting = starting;
  }
}

/** Ask the service; return its answer, or raise Refused or Lost. */
export async function ask(method, path, body) {
  const headers = {};
  if (key.get()) headers.Authorization = `Bearer ${key.get()}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response, text;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(REWARD_TIMEOUT),
    });
    text = await response.text();
  } catch {
    throw new Lost("The service does not answer.");
  }
  const answer = parsed(text);
  if (response.ok) return answer;
  const { code = "unknown", message = `The service answered with status ${response.status}.` } = answer?.error ?? {};
  if (code === "starting") throw new Lost("The service is starting. The first time it compiles its kernels, which takes some 20 seconds.", true, true);
  const passes = response.status >= 500 && code !== "experiment_broken"; // which is the experiment's own, and stays
  if (passes) throw new Lost(`The service cannot answer now: ${message}.`, true);
  throw new Refused(response.status, code, message);
}

function parsed(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/** The path of an experiment, and of what belongs to it. */
export const at = (name, ...parts) => ["v1", "experiments", name, ...parts].map(encodeURIComponent).join("/");
