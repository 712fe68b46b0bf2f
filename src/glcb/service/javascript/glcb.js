// The JavaScript client of the glcb service, for browsers and Node 18 or later. glcb.d.ts has the types.

const RETRIED = new Set([408, 429, 502, 503, 504]);
const NO_EFFECT = new Set(["rate_limited", "overloaded", "experiment_opening", "starting", "stopping", "request_timeout"]);
const FIRST_PAUSE = 100;
const MAX_PAUSE = 5_000;
const MAX_RETRY_AFTER = 30_000;
const ID = /^[A-Za-z0-9_-]{1,100}$/;
const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;

/** A request that failed. `code` is the error code of the service, or one of the client's own. */
export class GlcbError extends Error {
  constructor(code, message, { status = 0, cause } = {}) {
    super(message, { cause });
    this.name = "GlcbError";
    this.code = code;
    this.status = status;
  }
}

/** A glcb service. */
export class Client {
  constructor(url, { apiKey, timeout = 3_000, retryFor = 10_000 } = {}) {
    this.url = checkedUrl(url);
    if (apiKey !== undefined && !(typeof apiKey === "string" && /^[\x21-\x7e]+$/.test(apiKey))) {
      throw new GlcbError("invalid_settings", "apiKey must be a key printed by `glcb keys add`");
    }
    this.timeout = checkedNumber("timeout", timeout, 1);
    this.retryFor = checkedNumber("retryFor", retryFor, 0);
    this.headers = { "Content-Type": "application/json", ...(apiKey && { Authorization: `Bearer ${apiKey}` }) };
  }

  /** Refer to an existing experiment, without a request. */
  experiment(name) {
    if (typeof name !== "string" || !NAME.test(name)) {
      throw new GlcbError(
        "invalid_request",
        `an experiment name must be 1 to 64 characters from a–z, 0–9, _ and -, got ${shown(name)}`,
      );
    }
    return new Experiment(this, name);
  }
}

/** An experiment of a service; `Client.experiment` creates it. */
class Experiment {
  #client;

  constructor(client, name) {
    this.#client = client;
    this.name = name;
  }

  /** Make a decision. */
  async decide(context, { idempotencyKey = randomKey(), signal, ...options } = {}) {
    const body = choice(context, options, idempotencyKey);
    return (await this.#post("decisions", body, { signal })).content;
  }

  /** Choose `k` different arms, in order. */
  async rank(context, k, { idempotencyKey = randomKey(), signal, ...options } = {}) {
    const body = { k, ...choice(context, options, idempotencyKey) };
    return (await this.#post("rankings", body, { signal })).content;
  }

  /** Report the reward of a decision or a ranking. The request outlives the page. */
  async reward(id, value, { slot, examined, metrics, idempotencyKey = randomKey(), signal } = {}) {
    if (typeof id !== "string" || !ID.test(id)) {
      throw new GlcbError("unknown_decision", `the id of a decision is a text, got ${shown(id)}`);
    }
    if (typeof value === "boolean") value = Number(value);
    if (!Number.isFinite(value)) {
      throw new GlcbError("invalid_reward", `a reward must be a finite number, got ${shown(value)}`);
    }
    const body = { value, slot, examined, metrics, idempotency_key: idempotencyKey };
    const answer = await this.#post(`decisions/${id}/reward`, body, { signal, keepalive: true });
    return answer.content.status === "accepted" || answer.isUncertain;
  }

  #post(path, body, options) {
    const url = `${this.#client.url}/v1/experiments/${this.name}/${path}`;
    return send(this.#client, url, JSON.stringify(body, dateAsFeature), options);
  }
}

/** Return the body of a request for a decision or a ranking. */
function choice(context, { arms, eligible, control, unit, id }, idempotencyKey) {
  return { context, arms, eligible, control, unit, id, idempotency_key: idempotencyKey };
}

/** Send a request until there is an answer; every request has an idempotency key, so repeating it is safe. */
async function send(client, url, body, options) {
  const end = Date.now() + client.retryFor;
  let isUncertain = false; // an earlier attempt may have reached the service as well
  for (let failed = 0; ; failed++) {
    const { content, error, retryAfter } = await attempt(client, url, body, options);
    if (error === undefined) return { content, isUncertain };
    const left = end - Date.now();
    if (left <= 0 || !(error.status === 0 || RETRIED.has(error.status))) throw error;
    isUncertain ||= !NO_EFFECT.has(error.code);
    const pause = Math.min(FIRST_PAUSE * 2 ** failed, MAX_PAUSE) * (0.5 + Math.random() / 2);
    await sleep(Math.min(pause + retryAfter, left), options.signal);
  }
}

/** Send a request once; return its content, or an error. Throw only if the caller aborts. */
async function attempt(client, url, body, { signal, keepalive = false }) {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const abort = () => controller.abort(signal.reason);
  signal?.addEventListener("abort", abort);
  const timer = setTimeout(() => controller.abort(), client.timeout);
  try {
    const request = { method: "POST", headers: client.headers, body, keepalive, signal: controller.signal };
    const response = await fetch(url, { ...request, credentials: "omit", referrerPolicy: "no-referrer" });
    const content = parsed(await response.text());
    if (response.ok && content !== undefined) return { content };
    const seconds = Number(response.headers.get("Retry-After") ?? 0);
    const retryAfter = seconds > 0 ? Math.min(1_000 * seconds, MAX_RETRY_AFTER) : 0;
    return { error: refusal(response.status, content), retryAfter };
  } catch (cause) {
    if (signal?.aborted) throw signal.reason;
    return { error: silence(client, controller.signal.aborted, cause), retryAfter: 0 };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}

function refusal(status, content) {
  const { code, message } = content?.error ?? {};
  if (typeof code === "string") return new GlcbError(code, message, { status });
  const text = `the response has status ${status} and does not come from a glcb service`;
  return new GlcbError("unexpected_response", `${text}: check the URL and any proxy in between`, { status });
}

function silence({ url, timeout }, isLate, cause) {
  if (isLate) return new GlcbError("timeout", `no response from ${url} within ${timeout} ms`, { cause });
  const page = globalThis.document && globalThis.location?.origin;
  const advice = page && page !== new URL(url).origin ? ` and that its setting cors_origins has ${page}` : "";
  const reason = cause?.cause?.message || cause?.message;
  const text = `no response from ${url} (${reason}): check that the service is running at this URL${advice}`;
  return new GlcbError("no_response", text, { cause });
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** Return 128 random bits. Old versions of Node have no global `crypto`; there, keys need not be secret. */
function randomKey() {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto) crypto.getRandomValues(bytes);
  else bytes.forEach((_, index) => (bytes[index] = 256 * Math.random()));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Encode a Date as a date feature; JSON would make it a text. */
function dateAsFeature(key, value) {
  return this[key] instanceof Date ? { date: value } : value;
}

function checkedUrl(url) {
  try {
    const { protocol, origin, pathname } = new URL(url);
    const path = pathname.replace(/\/+$/, "");
    if (/^https?:$/.test(protocol) && !path.endsWith("/v1")) return origin + path;
  } catch {
    // the error below says more
  }
  throw new GlcbError("invalid_settings", `url must look like http://localhost:8000, got ${shown(String(url))}`);
}

function checkedNumber(name, value, least) {
  if (typeof value === "number" && value >= least && value < Infinity) return value;
  throw new GlcbError(
    "invalid_settings",
    `${name} must be a number of milliseconds, at least ${least}, got ${shown(value)}`,
  );
}

function shown(value) {
  return typeof value === "string" ? JSON.stringify(value.slice(0, 80)) : String(value);
}
