// What an operator can ask for, and what will happen then, in words.

import { cap, capMeans, comparison, gain, listed, MODES } from "./words.js";
import { plural, whole } from "./numbers.js";

const ALWAYS = "Your name, the time and your reason are kept in the journal for good.";

/**
 * Return what an action means now: its title, what will happen, the word on the button, and what all this rests on (if that
 * changes, so does what would be done); null if it makes no sense any more.
 */
export function meaning(action, level, gate) {
  const found = { approve, revert, pause, resume }[action];
  const said = found ? found(gate, gate.levels.find((item) => item.level === level)) : mode(action, gate);
  return said && { ...said, says: [...said.says, ALWAYS] };
}

/** Return the challenger that waits for an operator at a level. */
export function waiting(level) {
  return level.challengers.find((item) => item.challenge === level.waiting?.challenge);
}

function approve(gate, level) {
  const winner = level && gate.mode === "approve" && gate.paused === null ? waiting(level) : null;
  if (!winner) return null;
  const others = gate.levels.filter((item) => item.waiting && item.level !== level.level).map((item) => item.level);
  const says = [
    `From the next episode on, the policy of ${winner.challenge} (${cap(winner.cap)}) decides at level ` +
      `\u2018${level.level}\u2019 instead of ` +
      `${comparison(winner.kind)}. Episodes that have begun are not changed.`,
    `It is certified to gain at least ${gain(winner.bound, gate.unit)} over ${winner.comparator}, ` +
      `on ${plural(winner.units, "episode")}. ` +
      capMeans(winner.cap),
    "All open challenges, at every level, are given up and start again on what comes then.",
  ];
  if (others.length) says.push(`What waits at ${listed(others)} is given up too, and has to be certified again.`);
  if (gate.alarm) says.push("An alarm has not been answered: the reward has fallen below what was certified before.");
  const name = `\u2018${level.level}\u2019`;
  const upgrade = winner.kind === "upgrade";
  return {
    title: upgrade ? `Put a new policy in control of ${name}?` : `Hand over ${name} to the agent?`,
    says,
    button: upgrade ? `Upgrade ${name}` : `Hand over ${name}`,
    challenge: winner.challenge,
    rests: [winner.challenge, others, gate.alarm !== null],
  };
}

function revert(gate, level) {
  if (level?.control !== "agent") return null;
  const name = `\u2018${level.level}\u2019`;
  const says = [
    `The legacy decides at level ${name} again, at once: also in episodes that are going on. Those are no evidence then.`,
    "All open challenges are given up. The gate goes on: the level can be handed over again once a policy is certified anew.",
  ];
  if (gate.mode === "live") says.push("The gate is live, and would do that by itself. To prevent it, change the mode first.");
  return { title: `Give ${name} back to the legacy?`, says, button: `Give ${name} back`, rests: [level.version, gate.mode] };
}

function pause(gate) {
  if (gate.paused !== null) return null;
  return {
    title: "Pause the gate?",
    says: [
      "The policy in control of each level stays in control: to stop a policy, give its level back instead.",
      "Nothing is tested and nothing changes hands until an operator resumes. When that happens all open challenges start again.",
    ],
    button: "Pause the gate",
    rests: [],
  };
}

function resume(gate) {
  if (gate.paused === null) return null;
  return {
    title: "Resume the gate?",
    says: [
      `It was paused: ${gate.paused}.`,
      `All open challenges are given up; episodes that start from now on (after ${whole(gate.episodes.started)}) count ` +
        "for new ones. " +
        "Who controls which level does not change.",
    ],
    button: "Resume the gate",
    rests: [gate.paused],
  };
}

function mode(action, gate) {
  const wanted = action === "ask" ? "approve" : action;
  if (!MODES[wanted] || gate.mode === wanted) return null;
  const says = [MODES[wanted].says];
  const ready = gate.levels.filter((item) => item.waiting).map((item) => item.level);
  const held = gate.levels.filter((item) => item.control === "agent").map((item) => item.level);
  if (wanted === "shadow" && held.length) return null; // in shadow the legacy always acts: give levels back first
  if (wanted === "live" && ready.length) {
    says.push(`One of ${listed(ready)}, which wait now, changes hands with the next episode that is counted.`);
  }
  const name = `\u2018${MODES[wanted].name}\u2019`;
  return { title: `Change the mode to ${name}?`, says, button: `Change to ${name}`, rests: [gate.mode, ready, held] };
}
