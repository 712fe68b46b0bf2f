/** Formatting of numbers and times. */

const MINUS = "−";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** A missing number. */
export const NONE = "–";

const missing = (x) => x === null || x === undefined || !Number.isFinite(x);

const fixed = (x, digits) =>
  new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(Math.abs(x));

const signOf = (text, x) => (x < 0 && /[1-9]/.test(text) ? MINUS + text : text);

/** 12,345 */
export const count = (x) => (missing(x) ? NONE : whole.format(x));

/** 0.412, 41.2, 4,120: about three significant digits. */
export function number(x) {
  if (missing(x)) return NONE;
  const size = Math.abs(x);
  return signOf(fixed(x, size < 10 ? 3 : size < 1000 ? 1 : 0), x);
}

/** 16, 0.5, −3.25: no trailing zeros. */
export const plain = (x) => String(Number(x.toPrecision(6))).replace("-", MINUS);

/** 41.2% */
export const percent = (x, digits = 1) => (missing(x) ? NONE : `${signOf(fixed(100 * x, digits), x)}%`);

/** Add a plus sign to a positive number. */
export const signed = (text) => (text === NONE || text.startsWith(MINUS) || !/[1-9]/.test(text) ? text : `+${text}`);

const MONEY = /^([A-Z]{0,2}\p{Sc}|AUD|BRL|CAD|CHF|CNY|DKK|EUR|GBP|INR|NOK|PLN|SEK|USD)$/u;

/** Return a function that formats amounts in a unit: money always has two decimals, and four if all amounts are small. */
export function amounts(unit, [low, high] = [0, 1000]) {
  if (!MONEY.test(unit ?? "")) return number;
  const digits = high - low < 1 ? 4 : 2;
  return (x) => (missing(x) ? NONE : signOf(fixed(x, digits), x));
}

/** Return a function that formats amounts with their unit: 1.39 €. */
export function quantities(unit, range) {
  const amount = amounts(unit, range);
  return (x) => (unit && !missing(x) ? `${amount(x)} ${unit}` : amount(x));
}

/**
 * Binary rewards are shown as percentages and their differences in percentage points; others as numbers, with the unit of
 * the experiment if it has one. `bounds` are the smallest and the largest reward.
 */
export function rewardFormat({ rewards, reward_unit }) {
  const bounds = Array.isArray(rewards) ? rewards : [0, 1];
  const isMoney = MONEY.test(reward_unit ?? "");
  const amount = amounts(reward_unit, bounds);
  const kind = reward_unit ?? (rewards === "binary" ? "rewards" : "of reward");
  const sum = (x) => (isMoney ? amount(x) : x < 10 ? number(x) : fixed(x, 0));
  const gained = (x) => (missing(x) ? NONE : `${sum(Math.abs(x))} ${kind} ${x < 0 ? "lost" : "gained"}`);
  if (rewards === "binary") {
    return {
      value: (x) => percent(x),
      tick: (x) => percent(x, Number.isInteger(Math.round(1e6 * x) / 1e4) ? 0 : 1),
      difference: (x) => (missing(x) ? NONE : `${signed(signOf(fixed(100 * x, 1), x))} pts`),
      gained,
      bounds,
    };
  }
  const value = quantities(reward_unit, bounds);
  return { value, tick: isMoney ? amount : plain, difference: (x) => signed(value(x)), gained, bounds };
}

/** 310 µs, 4.2 ms, 1.3 s */
export function microseconds(x) {
  if (missing(x)) return NONE;
  if (x < 1000) return `${whole.format(x)} µs`;
  if (x < 1e6) return `${fixed(x / 1000, x < 1e4 ? 1 : 0)} ms`;
  return `${fixed(x / 1e6, 1)} s`;
}

/** A date and time in the local time zone. */
export const moment = (date) =>
  new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" }).format(new Date(date));

/** Hours and minutes with the date, without seconds. */
export const clock = (date) => new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }).format(new Date(date));

/** A date with its day of the week. */
export const weekday = (date) => new Intl.DateTimeFormat(undefined, { dateStyle: "full" }).format(new Date(date));

/** A date. */
export const day = (date) => new Intl.DateTimeFormat(undefined, { dateStyle: "medium" }).format(new Date(date));

/** 1 arm, 3 arms */
export const many = (n, one, more = `${one}s`) => `${count(n)} ${n === 1 ? one : more}`;
