// What the gate says, in words.

import { about, atLeast, certifiedValue, percent, plural, whole, withUnit } from "./numbers.js";

export const MODES = {
  live: { name: "Live", says: "A certified policy takes control by itself." },
  approve: { name: "Ask first", says: "A certified policy waits until an operator approves it." },
  shadow: { name: "Shadow", says: "The gate only says what it would do; no level changes hands." },
};

export const EVENTS = {
  flip: "Handover",
  certified: "Certified",
  waiting: "Waiting",
  alarm: "Alarm",
  paused: "Paused",
  "put off": "Put off",
  "doubt passed": "Doubt passed",
  noted: "Noted",
  restarted: "Restarted",
  late: "Late decision",
  reverted: "Given back",
  mode: "Mode",
  operator: "Operator",
};

const ACTS = {
  approve: "approved the change of hands",
  pause: "paused the gate",
  resume: "resumed the gate",
  revert: "gave the level back to the legacy",
  live: "set the mode to live",
  ask: "set the mode to ask first",
  shadow: "set the mode to shadow",
};

/** Return names as a list in a sentence. */
export function listed(names) {
  const quoted = names.map((name) => `\u2018${name}\u2019`);
  return quoted.length < 2 ? quoted.join("") : `${quoted.slice(0, -1).join(", ")} and ${quoted.at(-1)}`;
}

/** Return in one sentence who controls what. */
export function control(gate) {
  const levels = [...gate.levels.map((item) => [item.level, item.control]), ...gate.never.map((name) => [name, "legacy"])];
  const held = (who) => levels.filter(([, found]) => found === who).map(([name]) => name);
  const [agent, legacy] = [held("agent"), held("legacy")];
  if (!agent.length) return "The legacy controls every level.";
  if (!legacy.length) return "The agent controls every level.";
  return `The agent controls ${listed(agent)}; the legacy controls ${listed(legacy)}.`;
}

export function cap(value) {
  return value === null ? "no cap" : `W = ${about(value)}`;
}

export function capMeans(value) {
  if (value === null) return "It may differ from the legacy as far as it likes.";
  return `It takes no action more than ${about(value)} times as often as the legacy would.`;
}

export function gain(value, unit) {
  return withUnit(atLeast(value, true), unit);
}

export function comparison(kind) {
  return kind === "upgrade" ? "the policy in control now" : "the legacy";
}

/** Return who a challenger at a level is compared with now. */
export function compared(level) {
  return level.control === "agent" ? "the policy in control" : level.comparator;
}

/** Return why a level is in the hands that it is in. */
export function why(level, gate) {
  const last = level.held?.last;
  if (level.control === "agent" && last) {
    const itself = " It took control by itself, since the gate was live.";
    const approved = last.who ? ` Approved by ${last.who}: \u201c${last.said}\u201d` : itself;
    return (
      `Certified on ${plural(last.units, "episode")}: it gains at least ${gain(level.gain_lower, gate.unit)} over ${last.comparator}. ` +
      `${capMeans(level.cap)}${approved}`
    );
  }
  const better = `A policy better than ${compared(level)} is certified`;
  if (level.waiting && gate.mode === "approve") return `${better}, but no operator has approved it yet.`;
  if (level.waiting) return `${better}, but the gate is in shadow.`;
  if (last?.kind === "reverted") return `${capital(last.who ?? "an operator")} gave it back: \u201c${last.said ?? ""}\u201d`;
  return `No policy has taken control here. It must be certified to be better than ${compared(level)}.`;
}

/** Return which part of the decisions an agent in control leaves to others; null if none. */
export function leaves(gate) {
  const { floor, holdback, share, stage } = gate.leaves;
  const found = [];
  if (floor > 0) found.push(`${percent(floor)} of its decisions are drawn from the legacy`);
  if (holdback > 0) found.push(`${percent(holdback)} of the episodes are held back for the legacy, for comparison`);
  if (stage > 0 && share < 1) found.push(`of the first ${plural(stage, "episode")} only ${percent(share)} went to it`);
  return found.length ? `By design ${found.join("; ")}.` : null;
}

/** Return an event as a sentence. */
export function event(item, { unit, goal }) {
  const level = `\u2018${item.level}\u2019`;
  switch (item.kind) {
    case "flip": {
      const doing = item.action === "upgrade" ? "gets a better policy" : "is handed over to the agent";
      return (
        `${level} ${doing}, from episode ${whole(item.since)} on. ${item.challenge} (${cap(item.cap)}) was certified on ` +
        `${plural(item.units, "episode")} to gain at least ${gain(item.gain_lower, unit)} over ${item.comparator}.`
      );
    }
    case "certified":
      return (
        `${level}: ${item.challenge} gains at least ${gain(item.gain_lower, unit)} over ${item.comparator}, ` +
        `after ${plural(item.units, "episode")} of it.`
      );
    case "waiting":
      return `${level}: ${item.challenge} could take control; ${item.why}.`;
    case "alarm":
      return `${fallen(item, unit, goal)} Only an operator gives a level back.`;
    case "paused":
      return `Nothing is tested any more: ${item.why}.${item.fix ? ` What to do: ${item.fix}.` : ""} The policies in control stay.`;
    case "put off":
      return `What would be decided waits: ${item.why}.`;
    case "doubt passed":
      return `With more episodes the evidence against what is counted (${item.code}) is gone. Nothing is put off any more.`;
    case "noted":
      return `${capital(item.why)}. What to do: ${item.fix}.`;
    case "restarted":
      return `All open challenges were given up: ${item.why}. Episodes count again from ${whole(item.since)} on.`;
    case "late":
      return (
        `${capital(item.why)}. ` +
        (item.levels.length ? `Nothing is promised about ${listed(item.levels)} any more.` : "No level in control rests on it.")
      );
    case "reverted":
      return `${level} was given back to the legacy, from episode ${whole(item.since)} on.`;
    case "mode":
      return `${MODES[item.mode]?.name ?? item.mode}: ${MODES[item.mode]?.says ?? ""}`;
    case "operator": {
      const where = item.level ? ` (${level})` : "";
      return `${capital(item.who)} ${ACTS[item.action] ?? item.action}${where}: \u201c${item.why}\u201d`;
    }
    default:
      return item.kind;
  }
}

/** Return what an alarm says. */
export function fallen(alarm, unit, goal) {
  const worse = goal === "minimise" ? "risen above" : "fallen below";
  return `The reward has ${worse} ${withUnit(certifiedValue(alarm.floor, goal), unit)}, which was certified.`;
}

/** Return which episode holds up the counting of others; null if none does. */
export function holding(gate) {
  const { holding: found } = gate.episodes;
  if (!found?.behind) return null;
  const since = `${found.closed ? "closed, opened" : "open since"} ${moment(found.since)}`;
  const missing = found.missing ? `, ${plural(found.missing, "reward")} missing` : "";
  const waits = `${plural(found.behind, "episode")} ${found.behind === 1 ? "waits" : "wait"} behind it`;
  return `Counting waits for episode \u2018${found.episode}\u2019, ${since}${missing}; ${waits}.`;
}

export function capital(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

/** Return a moment as a clock on this machine's wall shows it; with its day unless that is today. */
export function moment(at) {
  const date = new Date(at);
  const day = DAY.format(date);
  return day === DAY.format(new Date()) ? CLOCK.format(date) : `${day}, ${CLOCK.format(date)}`;
}

export function ago(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 90) return plural(seconds, "second");
  if (seconds < 5400) return plural(Math.round(seconds / 60), "minute");
  return plural(Math.round(seconds / 3600), "hour");
}
