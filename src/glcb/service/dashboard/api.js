/** Requests to the service. The browser adds the session cookie; the header says that no other page sends them. */

const REQUEST_TIMEOUT = 10_000;

/** The service rejected the request. */
export class ApiError extends Error {
  constructor(status, code, message, field) {
    super(message);
    this.status = status;
    this.code = code;
    this.field = field;
  }
}

/** The service does not respond, or is temporarily unavailable, in which case it is `reachable` and may be `starting`. */
export class Unavailable extends Error {
  constructor(message, reachable = false, starting = false) {
    super(message);
    this.reachable = reachable;
    this.starting = starting;
  }
}

/** Send a request; return the decoded response, or throw ApiError or Unavailable. */
export async function ask(method, path, body) {
  const headers = { "X-Requested-With": "glcb" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response, text;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_TIMEOUT),
    });
    text = await response.text();
  } catch {
    throw new Unavailable("The service is not responding.");
  }
  const content = parse(text);
  if (response.ok) return content;
  const { code = "unknown", message = `The service responded with status ${response.status}.`, field = null } = content?.error ?? {};
  if (code === "starting") throw new Unavailable("The service is starting. The first start compiles kernels, which takes about 10 seconds.", true, true);
  if (code === "experiment_opening") throw new Unavailable(`${message[0].toUpperCase()}${message.slice(1)}.`, true, true);
  const temporary = response.status >= 500 && code !== "experiment_broken";
  if (temporary) throw new Unavailable(`The service is unavailable: ${message}.`, true);
  throw new ApiError(response.status, code, message, field);
}

function parse(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/** Return the path of an experiment or of one of its resources. */
export const at = (name, ...parts) => ["v1", "experiments", name, ...parts].map(encodeURIComponent).join("/");
