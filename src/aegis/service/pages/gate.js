// The dashboard: listens to the gate, shows what it says, and says loudly when it cannot.

import { fill, h } from "./dom.js";
import { connect } from "./dialog.js";
import { listen } from "./listening.js";
import { keptCard, levelCard } from "./level.js";
import * as panels from "./panels.js";
import { ago, control, listed, moment } from "./words.js";

const page = document.body.dataset;
const may = page.role === "operator";
const at = (name) => document.getElementById(name);
let gate = null;
let link = { status: "connecting", since: Date.now(), counting: null };

const dialog = may ? connect(at("ask"), page.proof, () => gate, (action) => announce(`Done: ${action}.`)) : null;

const LOST = {
  lost: ["Not connected: connection lost.", "The gate does not answer, or the network is down; this page keeps trying."],
  standby: [
    "Not connected: this process stands by.",
    "Another process is the writer of this gate, or none is. This one takes over when it can; until then look at the other one.",
  ],
  out: ["Not connected: your session has ended.", "Load this page again to enter."],
  connecting: ["Not connected yet.", "Nothing is known about the gate so far."],
};

// ---- showing ---------------------------------------------------------------------------------------------------------------

function show() {
  if (!gate) return;
  const connected = link.status === "connected";
  const focused = document.activeElement;
  at("content").hidden = false;
  fill(at("banner"), panels.banner(gate, link.counting));
  fill(at("tiles"), panels.tiles(gate));
  drawn("levels", (width) => [
    gate.levels.map((level, place) => levelCard(level, place, gate, width, may, connected)),
    gate.never.map(keptCard),
  ]);
  drawn("rewards", (width) => panels.rewards(gate, width));
  fill(at("ledger"), panels.ledger(gate));
  fill(at("monitor"), panels.monitor(gate));
  fill(at("events"), panels.events(gate));
  if (may) fill(at("operator"), panels.operator(gate, connected));
  // What had the focus may be gone, such as the button of what was approved: a keyboard user stays nearby.
  if (focused && !focused.isConnected) at("levels-title").focus();
}

/** Fill a place with pictures at the width that they have there; which is known for sure once they are there. */
function drawn(name, made) {
  const width = () => Math.max(at(name).querySelector("figure")?.clientWidth ?? at(name).clientWidth, 200);
  const before = width();
  fill(at(name), ...made(before));
  if (width() !== before) fill(at(name), ...made(width()));
}

function showLink() {
  const connected = link.status === "connected";
  document.documentElement.classList.toggle("lost", !connected);
  document.title = `${connected ? "" : "NOT CONNECTED \u2013 "}${gate?.alarm ? "ALARM \u2013 " : ""}${page.gate} \u2013 AEGIS`;
  at("connection").textContent = connected ? "Connected" : "Not connected";
  at("connection").className = connected ? "pill connected" : "pill not-connected";
  at("stale").hidden = connected;
  if (connected) return;
  const [word, says] = LOST[link.status];
  const known = ` Below is what was true at ${moment(link.since)}, ${ago(Date.now() - link.since)} ago. It may be wrong now.`;
  fill(at("stale"), h("strong", {}, word), h("span", {}, ` ${says}${gate ? known : ""}`));
}

// ---- saying aloud ----------------------------------------------------------------------------------------------------------

/** Say something to users who do not see the page. loud: interrupt them. */
function announce(words, loud = false) {
  const place = at(loud ? "loud" : "quiet");
  place.textContent = "";
  setTimeout(() => (place.textContent = words), 50); // read out again even if the words are the same
}

function changes(before, now) {
  const quiet = [];
  if (control(before) !== control(now)) quiet.push(control(now));
  const waits = (found) => found.levels.filter((item) => item.waiting).map((item) => item.level);
  const fresh = waits(now).filter((name) => !waits(before).includes(name));
  if (fresh.length) quiet.push(`A better policy is certified at ${listed(fresh)} and waits.`);
  if (before.mode !== now.mode) quiet.push(`The mode is ${now.mode} now.`);
  if (before.paused !== null && now.paused === null) quiet.push("The gate counts again.");
  if (quiet.length) announce(quiet.join(" "));
  if (now.alarms > before.alarms) announce("Alarm: the reward has fallen below what was certified.", true);
  else if (now.paused !== null && before.paused === null) announce(`The gate is paused: ${now.paused}.`, true);
}

// ---- wiring ----------------------------------------------------------------------------------------------------------------

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-action]");
  if (button && !button.disabled) dialog?.open(button.dataset.action, button.dataset.on ?? null, button);
});

let resized;
window.addEventListener("resize", () => {
  clearTimeout(resized);
  resized = setTimeout(show, 100);
});

listen(
  (found) => {
    const before = gate;
    gate = found;
    if (before) changes(before, gate);
    show();
    dialog?.follow();
  },
  (found) => {
    const changed = found.status !== link.status || found.counting !== link.counting;
    if (found.status !== link.status && link.status === "connected") announce(LOST[found.status][0], true);
    if (gate && found.status === "connected" && link.status !== "connected" && link.status !== "connecting") announce("Connected again.");
    if (found.counting && !link.counting) announce(`Nothing is counted now: ${found.counting}`, true);
    link = found;
    if (changed) show();
    showLink();
  },
);
