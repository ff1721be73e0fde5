// What the page says about the gate as a whole: its banner, numbers, rewards, risk, monitor, events, and what operators can do.

import { h } from "./dom.js";
import { rewardChart, swatch } from "./charts.js";
import { act, icon } from "./level.js";
import { about, atMost, certifiedValue, percent, plural, whole, withUnit } from "./numbers.js";
import { cap, capital, control, event, EVENTS, fallen, holding, listed, MODES, moment } from "./words.js";

const NEWEST = 12; // events that are shown at once
const LATEST = 4; // freezes that are
const COLUMNS = ["Freeze", "After episode", "Risk", "On challengers"];

/**
 * Return the banner: who controls what, and what has to be known at once. counting: why nothing is counted, null if it is.
 */
export function banner(gate, counting) {
  const waits = gate.levels.filter((item) => item.waiting).map((item) => item.level);
  const notices = [];
  if (gate.alarm) {
    notices.push(
      notice(
        "alarm",
        "Alarm",
        `${fallen(gate.alarm, gate.unit, gate.goal)} Found after episode ${whole(gate.alarm.episode)} ` +
          `(${moment(gate.alarm.at)}). The gate changes nothing by itself. ` +
          "An operator gives a level back, or pauses the gate, looks into it and resumes; then this goes away.",
      ),
    );
  }
  if (counting) {
    notices.push(notice("alarm", "Nothing is counted now", `${counting}. Decisions are still answered; the gate tries again.`));
  }
  if (gate.paused !== null) {
    const stays = "Nothing is tested; the policies in control stay in control until an operator resumes.";
    const refused = gate.audit.refused.at(-1);
    const fix = refused?.why === gate.paused ? `What to do: ${refused.fix}. ` : "";
    notices.push(notice("paused", "Paused", `${capital(gate.paused)}. ${fix}${stays}`));
  }
  if (gate.audit.doubted.length) {
    const code = gate.audit.refused.at(-1)?.code;
    const says = `Nothing is promised about ${listed(gate.audit.doubted)}: the audit refused what was certified from (${code}).`;
    notices.push(notice("alarm", "In doubt", code ? `${says} Give back what you do not trust.` : gate.promise));
  }
  if (gate.audit.put_off !== null && gate.paused === null) {
    const why = `${capital(gate.audit.put_off.why)} (${gate.audit.put_off.code}).`;
    notices.push(notice("wait", "Put off", `There is some evidence against what is counted, too little to pause. ${why}`));
  }
  if (waits.length && gate.mode === "approve" && gate.paused === null) {
    const certified = `A better policy is certified at ${listed(waits)} and waits for approval.`;
    notices.push(notice("wait", "An operator is needed", `${certified} Until then nothing changes.`));
  }
  if (waits.length && gate.mode === "shadow") {
    const certified = `A better policy is certified at ${listed(waits)}.`;
    notices.push(notice("wait", "In shadow", `${certified} In shadow it does not take control.`));
  }
  if (!notices.length) notices.push(...gate.levels.map(next));
  notices.push(...gate.audit.moved.map((says) => notice("wait", "The legacy changes", says)));
  const held = holding(gate);
  if (held) notices.push(notice("wait", "Held up", held));
  const who = gate.levels.some((item) => item.control === "agent") ? "agent" : "legacy";
  const kind = gate.alarm || counting ? "alarm" : gate.paused !== null ? "paused" : who;
  return h("div", { class: `banner ${kind}` }, icon(kind), h("div", {}, h("p", { class: "verdict" }, control(gate)), notices));
}

function notice(kind, word, says) {
  return h("p", { class: `notice ${kind}`, "data-key": word }, h("strong", {}, icon(kind), `${word}. `), says);
}

function next(level) {
  const word = h("strong", {}, `Next at \u2018${level.level}\u2019. `);
  return h("p", { class: "notice next", "data-key": level.level }, word, level.next);
}

function small(words) {
  return h("p", { class: "small" }, words);
}

function more(words, inside) {
  return h("details", {}, h("summary", {}, words), inside);
}

function mean(gate, who) {
  return withUnit(about(gate.earned[who].mean), gate.unit);
}

/** Return the numbers below the banner. */
export function tiles(gate) {
  const { started, counted, open, waiting, overruled, aborted } = gate.episodes;
  const { delta, spent } = gate.ledger;
  const behind = waiting ? `, ${whole(waiting)} complete and not counted yet` : "";
  const late = overruled ? ` ${plural(overruled, "decision")} taken by the legacy because the gate was too late.` : "";
  const broken = aborted ? ` ${plural(aborted, "episode")} broke off or had rewards missing.` : "";
  const bounded = gate.audit.doubted.length === 0;
  const means = ["legacy", "agent"].filter((who) => gate.earned[who]);
  return [
    tile("Mode", MODES[gate.mode]?.name ?? gate.mode, MODES[gate.mode]?.says),
    tile(
      "Episodes counted",
      whole(counted),
      `${whole(started)} started, ${whole(open)} still open${behind}.${late}${broken}`,
    ),
    tile(
      "Risk of a wrong handover",
      bounded ? `at most ${about(delta)}` : "not bounded",
      bounded
        ? `Over the whole life of the gate; ${percent(spent / delta)} of it is given out.`
        : "The audit refused what was certified from.",
    ),
    tile(
      "Mean reward",
      means.length ? means.map((who) => h("span", { class: "line" }, `${who} ${mean(gate, who)}`)) : "none yet",
      gate.goal === "minimise" ? "Lower is better." : "Higher is better.",
    ),
    tile(
      "Alarms so far",
      whole(gate.alarms),
      gate.monitor ? "The monitor watches what was certified." : "The monitor starts with the first handover.",
    ),
  ];
}

function tile(name, value, caption) {
  const [word, number, says] = [h("dt", {}, name), h("dd", { class: "value" }, value), h("dd", { class: "caption" }, caption)];
  return h("div", { class: "tile" }, word, number, says);
}

/** Return rewards over time. */
export function rewards(gate, width) {
  const drawn = rewardChart("reward", gate, width);
  if (!drawn) return [h("p", {}, "No rewards yet.")];
  const who = ["legacy", "agent"].filter((name) => gate.earned[name]);
  const better = gate.goal === "minimise" ? "lower" : "higher";
  const title = `Mean reward of some episodes each${gate.unit ? `, in ${gate.unit}` : ""} (${better} is better)`;
  return [
    h("figure", {}, h("figcaption", {}, title), drawn),
    h(
      "p",
      { class: "legend" },
      who.map((name) => {
        const says = `${name}: mean ${mean(gate, name)} over ${plural(gate.earned[name].episodes, "episode")}`;
        return h("span", {}, swatch(`dot-${name}`), swatch(`mean-${name}`), says);
      }),
    ),
    small(
      "Rewards before and after a handover are not a fair comparison by themselves: contexts may have changed, and the rewards " +
        "of the legacy include its exploration. What is certified, and over whom, is above.",
    ),
  ];
}

/** Return what was promised about risk, and what was given out, on what. */
export function ledger(gate) {
  const { delta, spent, freezes, entries } = gate.ledger;
  const newest = [...entries].reverse();
  return [
    h(
      "p",
      {},
      gate.audit.doubted.length
        ? ""
        : `Promised: with probability at least ${about(1 - delta)} no policy is ever put in control that is worse than what it ` +
            "replaces. ",
      `Of the risk of ${about(delta)}, at most `,
      h("strong", {}, atMost(spent)),
      ` is given out, to the challengers of ${plural(freezes, "freeze")}. It is never given out twice.`,
    ),
    gate.promise && h("p", {}, gate.promise),
    gate.gates?.words && h("p", {}, gate.gates.words),
    h("meter", { max: delta, value: spent, "aria-label": "Risk given out, of the risk promised" }, percent(spent / delta)),
    small(
      "Outside the promise: episodes that were aborted, or done again, and that the gate never saw; effects between episodes that are " +
        "not neighbours, such as a shared capacity, which takes longer to see than a handover.",
    ),
    newest.length > 0 && given(newest.slice(0, LATEST), "Risk given out last"),
    newest.length > LATEST &&
      more(`${whole(newest.length - LATEST)} earlier`, given(newest.slice(LATEST), "Risk given out before")),
  ];
}

function given(entries, caption) {
  return h(
    "table",
    { class: "cards" },
    h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, COLUMNS.map((word) => h("th", { scope: "col" }, word)))),
    h("tbody", {}, entries.map(entry)),
  );
}

function entry(item) {
  const what = Object.entries(item.caps).map(([level, caps]) => `${level}: ${caps.map(cap).join(", ")}`);
  return h(
    "tr",
    { "data-key": `freeze ${item.freeze}` },
    h("th", { scope: "row" }, whole(item.freeze), h("span", { class: "small" }, moment(item.at))),
    h("td", { "data-label": "After episode" }, whole(item.episode)),
    h("td", { "data-label": "Risk" }, atMost(item.spent)),
    h("td", { "data-label": "On challengers" }, what.length ? what.map((words) => h("span", { class: "line" }, words)) : "none"),
  );
}

/** Return what the monitor watches. */
export function monitor(gate) {
  if (!gate.monitor) return [h("p", {}, "Nothing to watch yet: the monitor starts when a level is handed over.")];
  const { floor, evidence, threshold, episodes } = gate.monitor;
  const share = evidence === null ? 1 : Math.max(0, Math.log(Math.max(evidence, 1)) / Math.log(threshold));
  return [
    h(
      "p",
      {},
      `It watches whether the reward stays ${gate.goal === "minimise" ? "below" : "above"} ` +
        `${withUnit(certifiedValue(floor, gate.goal), gate.unit)}, the value that was certified at the last handover, and has ` +
        `seen ${plural(episodes, "episode")} of it.`,
    ),
    h(
      "p",
      {},
      `Evidence that it has ${gate.goal === "minimise" ? "risen" : "fallen"}: `,
      h("strong", {}, evidence === null ? "overwhelming" : about(evidence)),
      ` (alarm at ${whole(threshold)}).`,
    ),
    h("meter", { max: 1, value: Math.min(share, 1), "aria-label": "Evidence on the way to an alarm" }, percent(share)),
    small(`${plural(gate.alarms, "alarm")} so far. An alarm changes nothing by itself: only an operator gives a level back.`),
  ];
}

/** Return events, newest first. */
export function events(gate) {
  const newest = [...gate.events].reverse();
  if (!newest.length) return [h("p", {}, "Nothing has happened yet.")];
  const older = newest.slice(NEWEST);
  return [
    h("ol", { class: "events", reversed: true }, newest.slice(0, NEWEST).map((item) => happened(item, gate))),
    older.length > 0 &&
      more(`${whole(older.length)} older`, h("ol", { class: "events" }, older.map((item) => happened(item, gate)))),
    small("All events, with everything they carry: /v1/events."),
  ];
}

function happened(item, gate) {
  return h(
    "li",
    { "data-key": `event ${item.seq}` },
    h("span", { class: "when" }, h("time", { datetime: item.at }, moment(item.at)), ` episode ${whole(item.episode)}`),
    h("span", { class: `kind ${item.kind}` }, EVENTS[item.kind] ?? item.kind),
    h("span", {}, event(item, gate)),
  );
}

/** Return what an operator can do about the gate as a whole. */
export function operator(gate, connected) {
  const modes = [["live", "live"], ["approve", "ask"], ["shadow", "shadow"]].filter(([mode]) => mode !== gate.mode);
  return [
    h(
      "div",
      { class: "buttons" },
      gate.paused === null
        ? act("pause", null, "Pause the gate\u2026", "danger")
        : act("resume", null, "Resume the gate\u2026", "primary", !connected),
      modes.map(([mode, said]) => act(said, null, `Change mode to \u2018${MODES[mode].name}\u2019\u2026`, "plain", !connected)),
    ),
    small(
      `The mode is \u2018${MODES[gate.mode]?.name}\u2019 now: ${MODES[gate.mode]?.says} Levels are approved and given back ` +
        "where they are shown, above.",
    ),
  ];
}
