// Elements made from data as text, never as markup; and changing a page in place, so that focus and open details stay.

const SVG = "http://www.w3.org/2000/svg";

/** Return an element. Attributes that are null or false are left out; children are elements, or anything else as text. */
export function h(tag, attributes, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** Return an element of a picture. */
export function s(tag, attributes, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

/** Make the children of a place those that are given, changing only what differs. */
export function fill(place, ...children) {
  const fresh = place.cloneNode(false);
  fresh.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  sameChildren(place, fresh);
}

function same(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  for (const { name, value } of [...fresh.attributes]) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    // The reader opens and closes details.
    if (!fresh.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
  sameChildren(old, fresh);
}

function sameChildren(old, fresh) {
  const keyed = new Map([...old.childNodes].filter(keyOf).map((child) => [keyOf(child), child]));
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const match = keyOf(wanted) === null ? at : keyed.get(keyOf(wanted));
    if (match && alike(match, wanted)) {
      if (match === at) at = at.nextSibling;
      else old.insertBefore(match, at);
      same(match, wanted);
    } else {
      old.insertBefore(wanted, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function alike(one, two) {
  return one.nodeType === two.nodeType && one.nodeName === two.nodeName && keyOf(one) === keyOf(two);
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}
