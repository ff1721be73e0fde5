// The dialog in which an operator says what is to be done, and why.

import { h, fill } from "./dom.js";
import { meaning } from "./asking.js";

const PATIENCE = 15000; // milliseconds that an answer may take
const SILENCE =
  "The gate does not answer: it is not known whether this was done. Try again with the same words; it is not done twice.";

/** Connect the dialog of the page. current: returns what the gate says now. done: called with what was done. */
export function connect(dialog, proof, current, done) {
  const part = (name) => dialog.querySelector(`[data-part=${name}]`);
  const [title, says, why, error, confirm, cancel] = ["title", "says", "why", "error", "confirm", "cancel"].map(part);
  let asked = null; // {action, level, rests, opener, changed, key, sent, unanswered}
  let busy = false;

  function show(said, changed) {
    title.textContent = said.title;
    confirm.textContent = said.button;
    asked.challenge = said.challenge; // what is confirmed is what was read
    fill(
      says,
      changed && h("p", { class: "changed" }, h("strong", {}, "This has changed since you opened it. "), "Read it again."),
      said.says.map((line) => h("p", {}, line)),
    );
  }

  function fail(words) {
    error.textContent = words;
    error.hidden = false;
  }

  function open(action, level, opener) {
    const said = current() && meaning(action, level, current());
    if (!said) return;
    const rests = JSON.stringify(said.rests);
    asked = { action, level, rests, opener, changed: false, key: null, sent: null, unanswered: false };
    why.value = "";
    why.removeAttribute("aria-invalid");
    error.hidden = true;
    confirm.disabled = false;
    show(said, false);
    dialog.showModal();
    why.focus();
  }

  /** Follow the gate while the dialog is open: what is confirmed is what is true now. */
  function follow() {
    // What was sent and not answered is asked for again as it was, with any effect it may have had.
    if (!asked || busy || !dialog.open || asked.unanswered) return;
    const said = meaning(asked.action, asked.level, current());
    confirm.disabled = said === null;
    if (said === null) {
      fail("This is not possible any more: the gate has changed. Close this and look again.");
      return;
    }
    if (JSON.stringify(said.rests) !== asked.rests) asked.changed = true;
    show(said, asked.changed);
  }

  async function send(submitted) {
    submitted.preventDefault();
    if (busy) return;
    if (!why.value.trim()) {
      why.setAttribute("aria-invalid", "true");
      fail("Say why: colleagues who look into this later will want to know.");
      why.focus();
      return;
    }
    why.removeAttribute("aria-invalid");
    const body = JSON.stringify({ action: asked.action, why: why.value.trim(), level: asked.level, challenge: asked.challenge });
    // The same words again carry the same key: what was done, but not answered, is not done twice.
    if (body !== asked.sent) Object.assign(asked, { sent: body, key: fresh() });
    const { action, level, key } = asked;
    busy = confirm.disabled = cancel.disabled = true;
    const failure = await post(body, key, proof);
    busy = confirm.disabled = cancel.disabled = false;
    if (!failure) {
      dialog.close();
      done(action, level);
    } else if (asked) {
      asked.unanswered = failure === SILENCE;
      fail(failure);
    }
  }

  dialog.querySelector("form").addEventListener("submit", send);
  cancel.addEventListener("click", () => dialog.close());
  // What was sent cannot be taken back: the dialog waits for the answer.
  dialog.addEventListener("cancel", (event) => busy && event.preventDefault());
  dialog.addEventListener("close", () => {
    const back = asked?.opener?.isConnected ? asked.opener : document.getElementById("levels-title");
    asked = null;
    back?.focus();
  });
  return { open, follow };
}

/** Return a name for a request that no other request has. Browsers have randomUUID on pages over TLS and on this machine only. */
function fresh() {
  if (crypto.randomUUID) return crypto.randomUUID();
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Send what an operator says; return null, or why it was not done. */
async function post(body, key, proof) {
  let answer;
  try {
    answer = await fetch("/v1/operator", {
      method: "POST",
      headers: { "content-type": "application/json", "idempotency-key": key, "x-aegis-csrf": proof },
      body,
      signal: AbortSignal.timeout(PATIENCE),
    });
  } catch {
    return SILENCE;
  }
  if (answer.ok) return null;
  if (answer.status === 401) return "Your session has ended, nothing was done. Open this page again and enter.";
  const found = await answer.json().catch(() => ({}));
  const detail = Array.isArray(found.detail) ? found.detail.map((item) => `${item.where}: ${item.why}`).join("; ") : found.detail;
  return `Not done (${answer.status}): ${detail ?? "the gate does not say why"}`;
}
