// Numbers as they are shown. A lower bound is never shown higher than it is.

/** Return a lower bound in four digits, rounded down. sign: with a '+' where it is above 0. */
export function atLeast(value, sign = false) {
  if (value === null || value === undefined || Number.isNaN(value)) return "unknown";
  if (value === 0 || !Number.isFinite(value)) return String(value);
  let shown = Number(value.toPrecision(4));
  if (shown > value) {
    const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 3);
    shown = Number((shown - unit).toPrecision(4));
  }
  return signed(shown, sign);
}

/** Return a number in four digits, rounded to the nearest: for what is no bound. */
export function about(value, sign = false) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "unknown";
  return signed(Number(value.toPrecision(4)), sign);
}

/** Return the value that was certified: a lower bound rounded down, or an upper one rounded up where small is good. */
export function certifiedValue(value, goal) {
  if (goal !== "minimise") return atLeast(value);
  const shown = atLeast(-value);
  return shown.startsWith("\u2212") ? shown.slice(1) : shown === "0" ? shown : `\u2212${shown}`;
}

/** Return what was spent of a risk: in three digits, rounded up. */
export function atMost(value) {
  if (value === 0) return "0";
  const shown = Number(value.toPrecision(3));
  return plain(shown >= value ? shown : Number((shown + 10 ** (Math.floor(Math.log10(value)) - 2)).toPrecision(3)));
}

/** Return a share in per cent, rounded down, so that 100 is not reached before it is. */
export function percent(share) {
  return `${whole(Math.floor(share * 100))} %`;
}

export function whole(value) {
  return value.toLocaleString("en", { maximumFractionDigits: 0 }).replaceAll(",", "\u202f");
}

/** Return a number with the unit of the reward, if it has one. */
export function withUnit(shown, unit) {
  return unit ? `${shown}\u00a0${unit}` : shown;
}

export function plural(count, word) {
  return `${whole(count)} ${word}${count === 1 ? "" : "s"}`;
}

function signed(value, sign) {
  const shown = plain(Math.abs(value));
  if (value < 0) return `\u2212${shown}`;
  return sign && value > 0 ? `+${shown}` : shown;
}

function plain(value) {
  if (value !== 0 && (Math.abs(value) < 1e-4 || Math.abs(value) >= 1e7)) return value.toExponential();
  return String(value);
}
