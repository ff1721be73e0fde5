// Pictures: the certified bound of a level, rewards, evidence. Drawn at the width they are shown at, so that text keeps its size.

import { s } from "./dom.js";
import { about, atLeast, plural, whole, withUnit } from "./numbers.js";

const DEPTH = 2.5; // how far below its threshold an early bound is drawn, as a multiple of what lies above
const EDGE = { left: 52, right: 12, top: 24, bottom: 34 };

/** Return the picture of the bound of a level. */
export function boundChart(name, level, gate, width) {
  const path = gate.paths.bounds[level.level] ?? [];
  if (!path.length) return null;
  const margin = path.at(-1)[2];
  const values = path.map((point) => point[1]);
  const own = gate.changes.filter((item) => item.kind === "flip" && item.level === level.level);
  const certified = own.map((item) => item.gain_lower);
  const depth = (1.3 * (margin - values.at(-1))) / DEPTH; // so that the newest bound is in sight
  const reach = Math.max(...[...values, ...certified].map((value) => value - margin), depth);
  const lowest = margin - DEPTH * (reach > 0 ? reach : 1);
  const low = Math.max(Math.min(...values, margin), lowest);
  const cut = Math.min(...values) < low;
  const frame = axes(width, 190, [0, Math.max(gate.episodes.counted, 1)], [low, Math.max(...values, margin)]);
  const edge = clip(`${name}-clip`, frame);
  const last = path.at(-1);
  return picture(
    name,
    frame,
    `Certified gain at level ${level.level} over episodes, and its threshold`,
    `After ${plural(last[0], "episode")} the bound is ${withUnit(atLeast(last[1], true), gate.unit)}; ` +
      "what has to be exceeded is " +
      `${withUnit(about(margin, true), gate.unit)}.${cut ? ` Bounds below ${about(low)} are not drawn.` : ""}`,
    edge,
    rule(frame, margin, "margin", `threshold ${withUnit(about(margin, margin > 0), gate.unit)}`),
    phases(path, gate.changes).map((part) =>
      part.length > 1
        ? line(frame, part.map((point) => [point[0], point[1]]), "bound-line", edge.id)
        : s("circle", { cx: frame.x(part[0][0]), cy: frame.y(Math.max(part[0][1], low)), r: 2.5, class: "bound-dot" }),
    ),
    marks(frame, gate.changes, level.level),
    last[1] >= low && s("circle", { cx: frame.x(last[0]), cy: frame.y(last[1]), r: 4, class: "bound-dot" }),
    cut && s("text", { x: EDGE.left + 4, y: frame.height - EDGE.bottom - 5, class: "note" }, `\u25bc starts below ${about(low)}`),
  );
}

/** Return the picture of rewards over time, with the mean of each policy that acted. */
export function rewardChart(name, gate, width) {
  // Episodes of which it cannot be said who acted tell nothing about either.
  const blocks = gate.paths.rewards.filter(([, , , who]) => who !== "mixed");
  if (!blocks.length) return null;
  const means = ["legacy", "agent"].filter((who) => gate.earned[who]).map((who) => [who, gate.earned[who].mean]);
  const values = [...blocks.map((block) => block[2]), ...means.map(([, mean]) => mean)];
  const frame = axes(width, 220, [0, Math.max(gate.episodes.counted, 1)], [Math.min(...values), Math.max(...values)]);
  const dots = blocks.map(([first, end, mean, who]) => mark(frame.x((first + end) / 2), frame.y(mean), who));
  return picture(
    name,
    frame,
    "Reward over episodes, by who acted",
    means.map(([who, mean]) => `Mean with ${who}: ${withUnit(about(mean), gate.unit)}.`).join(" "),
    dots,
    means.map(([who, mean]) => {
      return rule(frame, mean, `mean-${who}`, `mean, ${who} ${withUnit(about(mean), gate.unit)}`, who === "agent");
    }),
    marks(frame, gate.changes, null),
  );
}

/** Return a small picture of a share from 0 to 1, where a full bar is what certifies. */
export function bar(share, certified) {
  const filled = Math.min(Math.max(share ?? 0, 0), 1) * 120;
  return s(
    "svg",
    { viewBox: "0 0 124 14", class: "bar", "aria-hidden": "true" },
    s("rect", { x: 1, y: 1, width: 122, height: 12, class: "bar-frame" }),
    s("rect", { x: 2, y: 2, width: filled, height: 10, class: certified ? "bar-full" : "bar-part" }),
  );
}

/** Return the mark of a line or a dot in a legend. */
export function swatch(kind) {
  const shape = kind.startsWith("dot-") ? mark(11, 6, kind.slice(4)) : s("line", { x1: 1, x2: 21, y1: 6, y2: 6, class: kind });
  return s("svg", { viewBox: "0 0 22 12", class: "swatch", "aria-hidden": "true" }, shape);
}

function mark(x, y, who) {
  // The shape says who acted, too.
  if (who === "agent") return s("circle", { cx: x, cy: y, r: 3, class: "dot-agent" });
  return s("rect", { x: x - 2.5, y: y - 2.5, width: 5, height: 5, class: "dot-legacy" });
}

/** Return the points of a path in pieces, one for each phase: a bound starts again when anything changes hands. */
function phases(path, changes) {
  const parts = [[]];
  for (const point of path) {
    const before = parts.at(-1).at(-1);
    if (before && changes.some((item) => item.episode >= before[0] && item.episode < point[0])) parts.push([]);
    parts.at(-1).push(point);
  }
  return parts;
}

function axes(width, height, [first, end], [low, high]) {
  const space = (high - low || Math.abs(high) || 1) * 0.08;
  const [bottom, top] = [low - space, high + space];
  const x = (value) => EDGE.left + ((value - first) / (end - first)) * (width - EDGE.left - EDGE.right);
  const y = (value) => height - EDGE.bottom - ((value - bottom) / (top - bottom)) * (height - EDGE.top - EDGE.bottom);
  return { width, height, x, y, first, end, bottom, top };
}

function picture(name, frame, title, description, ...shapes) {
  const { width, height } = frame;
  const rows = ticks(frame.bottom, frame.top, 4).map((value) => [
    s("line", { x1: EDGE.left, x2: width - EDGE.right, y1: frame.y(value), y2: frame.y(value), class: "grid" }),
    s("text", { x: EDGE.left - 6, y: frame.y(value) + 4, "text-anchor": "end" }, about(value)),
  ]);
  const columns = ticks(frame.first, frame.end, width < 400 ? 3 : 6).map((value) =>
    label(frame.x(value), height - EDGE.bottom + 15, frame.x(value) > width - 30 ? "end" : "middle", whole(value)),
  );
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-labelledby": `${name}-title ${name}-desc` },
    s("title", { id: `${name}-title` }, title),
    s("desc", { id: `${name}-desc` }, description),
    rows,
    columns,
    s("text", { x: (width + EDGE.left) / 2, y: height - 3, "text-anchor": "middle" }, "episodes counted"),
    ...shapes,
  );
}

function label(x, y, anchor, words, style) {
  return s("text", { x, y, class: style, "text-anchor": anchor }, words);
}

function rule(frame, value, style, words, right = false) {
  const y = frame.y(value);
  const place = right ? { x: frame.width - EDGE.right - 4, "text-anchor": "end" } : { x: EDGE.left + 4 };
  return [
    s("line", { x1: EDGE.left, x2: frame.width - EDGE.right, y1: y, y2: y, class: style }),
    s("text", { ...place, y: y - 5, class: "rule-word" }, words),
  ];
}

/** Return where levels changed hands; level: the one the picture is about, null for all. */
function marks(frame, changes, level) {
  const shown = changes.filter((item) => item.kind !== "restarted" && (level === null || item.level === level));
  return shown.map((item) => {
    const x = frame.x(item.episode);
    const left = x > frame.width * 0.6;
    const doing = item.kind === "reverted" ? "given back" : item.action === "upgrade" ? "upgraded" : "handed over";
    const row = level === null ? 14 + 11 * (shown.indexOf(item) % 2) : 14;
    return [
      s("line", { x1: x, x2: x, y1: row + 3, y2: frame.height - EDGE.bottom, class: "flip-line" }),
      shown.length <= 8 &&
        label(left ? x - 3 : x + 3, row, left ? "end" : "start", level === null ? `${item.level} ${doing}` : doing, "flip-word"),
    ];
  });
}

function line(frame, points, style, edge) {
  const path = points.map(([x, y]) => `${frame.x(x).toFixed(1)},${frame.y(y).toFixed(1)}`).join(" ");
  return s("polyline", { points: path, class: style, "clip-path": `url(#${edge})` });
}

function clip(id, frame) {
  const size = { width: frame.width - EDGE.left - EDGE.right + 4, height: frame.height - EDGE.top - EDGE.bottom + 8 };
  return s("clipPath", { id }, s("rect", { x: EDGE.left - 2, y: EDGE.top - 4, ...size }));
}

/** Return round values (1, 2 or 5 times a power of ten apart), about so many. */
function ticks(low, high, number) {
  const raw = (high - low) / number;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= raw * (1 - 1e-9));
  const found = [];
  for (let place = Math.ceil(low / step - 1e-9); place <= high / step + 1e-9; place += 1) {
    found.push(Number((place * step).toPrecision(12)));
  }
  return found;
}
