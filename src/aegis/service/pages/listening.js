// Whether the page shows what is true now: a stream of what the gate says, and a question from time to time whether it is there.

const ASKS = 3000; // milliseconds between two questions
const WAITS = 4000; // for an answer
const STALE = 10000; // after which silence means that the connection is lost
const AGAIN = 2000; // before a stream that was refused is opened again

/**
 * Listen to the gate. heard: called with everything the page shows. state: called with {status, since, counting} whenever that
 * may have changed.
 */
export function listen(heard, state) {
  let source = null;
  let [streaming, got, refused] = [false, false, null];
  let [answered, writer, counting] = [Date.now(), true, null];
  let said = null; // the newest thing that was heard
  let last = Date.now();

  function status() {
    if (refused === 401 || refused === 403) return "out";
    if (!writer) return "standby";
    if (Date.now() - answered > STALE) return "lost";
    if (!got) return "connecting";
    return streaming ? "connected" : "lost";
  }

  function tell() {
    state({ status: status(), since: last, counting });
  }

  function open() {
    source = new EventSource("/v1/stream");
    source.addEventListener("error", () => {
      streaming = false;
      if (source.readyState === EventSource.CLOSED) {
        source.close();
        reason().finally(() => setTimeout(open, AGAIN));
      }
      tell();
    });
    source.addEventListener("gate", (message) => {
      said = JSON.parse(message.data);
      [got, streaming, refused, last] = [true, true, null, Date.now()]; // a stream is connected once it has said something
      counting = said.counting;
      heard(said);
      tell();
    });
  }

  /** Find out why a stream was refused, which the browser does not tell. */
  async function reason() {
    try {
      refused = (await fetch("/v1/levels", { cache: "no-store", signal: AbortSignal.timeout(WAITS) })).status;
    } catch {
      refused = null;
    }
    tell();
  }

  async function ask() {
    try {
      const answer = await fetch("/v1/health", { cache: "no-store", signal: AbortSignal.timeout(WAITS) });
      if (answer.ok || answer.status === 503) {
        const found = await answer.json();
        [writer, counting] = [found.writer, found.counting];
      }
      answered = Date.now();
      if (streaming) last = answered;
    } catch {
      // Silence: how long it lasts is what counts.
    }
    tell();
  }

  open();
  ask();
  setInterval(ask, ASKS);
  setInterval(tell, 1000);
  document.addEventListener("visibilitychange", () => document.hidden || ask());
}
