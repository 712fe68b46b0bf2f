/** Helpers that create elements and update them in place, so that focus and open details are kept. */

/** Create an element; attributes that start with "on" are listeners, null and false are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** Set the text of an element if it differs. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Set an attribute, or remove it. */
export function mark(element, name, value) {
  if (value === null || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Set custom properties that the stylesheet uses. */
export function draw(element, properties) {
  for (const [name, value] of Object.entries(properties)) element.style.setProperty(`--${name}`, value);
}

/**
 * Return a function that shows items as children of an element and keeps existing ones: `make(item)` returns an element
 * and a function that updates it.
 */
export function keyed(parent, key, make) {
  const shown = new Map();
  return (items) => {
    const wanted = new Set(items.map(key));
    for (const [name, { element }] of shown) {
      if (wanted.has(name)) continue;
      element.remove();
      shown.delete(name);
    }
    items.forEach((item, place) => {
      const name = key(item);
      if (!shown.has(name)) {
        const [element, update] = make(item);
        shown.set(name, { element, update });
      }
      const { element, update } = shown.get(name);
      if (parent.children[place] !== element) parent.insertBefore(element, parent.children[place] ?? null);
      update(item);
    });
  };
}

/** Announce a text to screen readers. */
export function announce(text) {
  say(document.getElementById("announcements"), text);
}
