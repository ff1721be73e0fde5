// One level: who controls it, since when and why, what happens next, and who challenges that.

import { h, s } from "./dom.js";
import { bar, boundChart, swatch } from "./charts.js";
import { percent, plural, whole } from "./numbers.js";
import { cap, capMeans, compared, gain, leaves, moment, why } from "./words.js";
import { waiting } from "./asking.js";

const FIRST = 3; // challengers that are shown at once

/**
 * Return the card of a level. place: among the levels, outermost first. width: of its picture. may: whether the reader is an
 * operator. connected: whether the page is.
 */
export function levelCard(level, place, gate, width, may, connected) {
  const title = `level-${place}`;
  const next = waiting(level);
  const asks = gate.mode === "approve" && gate.paused === null;
  return h(
    "article",
    {
      class: `level ${level.control}`,
      "data-key": `level ${level.level}`,
      "data-level": level.level,
      "aria-labelledby": title,
    },
    h(
      "div",
      { class: "level-head" },
      h("h3", { id: title }, level.level, position(place, gate)),
      badge(level.control),
      next && asks && h("p", { class: "badge wait" }, icon("wait"), "waits for an operator"),
    ),
    h(
      "div",
      { class: "level-body" },
      h(
        "div",
        {},
        h(
          "dl",
          { class: "facts" },
          fact("Since", since(level)),
          fact("Why", why(level, gate), level.control === "agent" && leaves(gate) && h("span", { class: "small" }, leaves(gate))),
          fact("What happens next", level.next, next && proposal(next, gate)),
        ),
        may && buttons(level, next, asks, connected),
      ),
      bound(level, place, gate, width),
    ),
    challengers(level, gate),
  );
}

/** Return the card of a level that this gate never hands over. */
export function keptCard(name, place) {
  return h(
    "article",
    { class: "level legacy", "data-key": `level ${name}`, "data-level": name, "aria-labelledby": `kept-${place}` },
    h("div", { class: "level-head" }, h("h3", { id: `kept-${place}` }, name), badge("legacy")),
    h("dl", { class: "facts" }, fact("Why", "This gate was opened without this level: it is never handed over.")),
  );
}

export function icon(kind) {
  const shapes = {
    legacy: [
      s("rect", { x: 3, y: 3, width: 18, height: 18, class: "icon-line" }),
      s("path", { d: "M8 12h8", class: "icon-line" }),
    ],
    agent: [
      s("path", { d: "M12 2l8 3v6c0 5-3 9-8 11-5-2-8-6-8-11V5z", class: "icon-body" }),
      s("path", { d: "M8 12l3 3 5-6", class: "icon-cut" }),
    ],
    wait: [s("path", { d: "M6 3h12M6 21h12M7 3c0 6 10 12 10 18M17 3c0 6-10 12-10 18", class: "icon-line" })],
    alarm: [s("path", { d: "M12 2l11 20H1z", class: "icon-body" }), s("path", { d: "M12 9v6M12 18v1", class: "icon-cut" })],
    paused: [s("path", { d: "M5 3h5v18H5zM14 3h5v18h-5z", class: "icon-body" })],
  };
  return s("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, shapes[kind]);
}

function badge(who) {
  return h("p", { class: `badge ${who}` }, icon(who), who === "agent" ? "The agent is in control" : "The legacy is in control");
}

function position(place, gate) {
  const last = gate.levels.length - 1;
  const word = last === 0 ? "" : place === 0 ? "outermost level" : place === last ? "innermost level" : "";
  return word && h("span", { class: "small" }, ` ${word}`);
}

function fact(name, ...values) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, values));
}

function since(level) {
  const held = level.held;
  if (!held) return "The gate was opened; it has never changed hands.";
  const upgraded = held.since.episode !== held.last.since;
  const last = upgraded ? `; this policy since episode ${whole(held.last.since)} (${moment(held.last.at)})` : "";
  return [`Episode ${whole(held.since.episode)} (`, h("time", { datetime: held.since.at }, moment(held.since.at)), `)${last}`];
}

function proposal(next, gate) {
  return h(
    "span",
    { class: "proposal" },
    `Waiting: ${next.challenge} (${cap(next.cap)}), certified on ${plural(next.units, "episode")} to gain at least ` +
      `${gain(next.bound, gate.unit)} over ${next.comparator}. ${capMeans(next.cap)}`,
  );
}

function buttons(level, next, asks, connected) {
  const found = [];
  if (next && asks) {
    const doing = next.kind === "upgrade" ? "Approve new policy at" : "Approve handover of";
    // What waits may be something else by now: an operator cannot approve what the page does not show.
    found.push(act("approve", level.level, `${doing} \u2018${level.level}\u2019\u2026`, "primary", !connected));
  }
  if (level.control === "agent") {
    found.push(act("revert", level.level, `Give \u2018${level.level}\u2019 back to the legacy\u2026`, "danger"));
  }
  return found.length ? h("div", { class: "buttons" }, found) : null;
}

/** Return a button that opens the dialog. */
export function act(action, level, words, style, disabled = false) {
  const key = `${action} ${level ?? ""}`;
  return h("button", { type: "button", class: style, "data-key": key, "data-action": action, "data-on": level, disabled }, words);
}

function bound(level, place, gate, width) {
  const drawn = boundChart(`bound-${place}`, level, gate, width);
  if (!drawn) {
    const none = "No bound yet: no challenger at this level has counted an episode.";
    return h("figure", {}, h("figcaption", {}, "Certified gain"), h("p", { class: "small" }, none));
  }
  return h(
    "figure",
    {},
    h("figcaption", {}, `Certified gain over ${compared(level)}${gate.unit ? `, in ${gate.unit}` : ""}`),
    drawn,
    h(
      "p",
      { class: "legend" },
      h("span", {}, swatch("bound-line"), "what is certified of the best challenger"),
      h("span", {}, swatch("margin"), "threshold: above it a policy is certified"),
    ),
  );
}

function challengers(level, gate) {
  if (!level.challengers.length) return null;
  const rank = (item) => [item.challenge === level.waiting?.challenge, item.certified, item.evidence ?? -Infinity];
  const sorted = [...level.challengers].sort((one, two) => compare(rank(two), rank(one)));
  const [first, others] = [sorted.slice(0, FIRST), sorted.slice(FIRST)];
  return h(
    "div",
    { class: "challengers" },
    h("h4", {}, `Challengers (${whole(sorted.length)})`),
    table(first, level, gate, "Challengers that are furthest"),
    others.length > 0 &&
      h(
        "details",
        {},
        h("summary", {}, `${whole(others.length)} more at \u2018${level.level}\u2019`),
        table(others, level, gate, "Other challengers"),
      ),
  );
}

function compare(one, two) {
  for (const place of one.keys()) {
    if (one[place] !== two[place]) return one[place] > two[place] ? 1 : -1;
  }
  return 0;
}

function table(items, level, gate, caption) {
  const head = ["Challenger", "Cap", "Episodes", "Gains at least", "Evidence, of what certifies it"];
  return h(
    "table",
    { class: "cards" },
    h("caption", { class: "unseen" }, `${caption} at level ${level.level}`),
    h("thead", {}, h("tr", {}, head.map((word) => h("th", { scope: "col" }, word)))),
    h("tbody", {}, items.map((item) => row(item, level, gate, head))),
  );
}

function row(item, level, gate, head) {
  const waits = item.challenge === level.waiting?.challenge;
  return h(
    "tr",
    { "data-key": item.challenge },
    h(
      "th",
      { scope: "row" },
      item.challenge,
      item.kind === "upgrade" && h("span", { class: "small" }, "upgrade"),
      waits && h("span", { class: "small strong" }, "waits"),
    ),
    h("td", { "data-label": head[1] }, cap(item.cap)),
    h("td", { "data-label": head[2] }, whole(item.units)),
    h("td", { "data-label": head[3] }, item.bound === null ? "nothing yet" : gain(item.bound, gate.unit)),
    h("td", { "data-label": head[4] }, bar(item.certified ? 1 : item.evidence, item.certified), " ", evidence(item)),
  );
}

function evidence(item) {
  if (item.certified) return h("strong", {}, "\u2713 certified");
  if (item.evidence === null) return "none yet";
  return item.evidence < 0 ? "speaks against it" : percent(Math.min(item.evidence, 0.99));
}
