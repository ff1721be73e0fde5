"""Words in column names that hint at a role."""

from __future__ import annotations

import re
import unicodedata

EPISODE = (
    "episode", "batch", "run", "session", "trip", "visit", "stay", "admission", "encounter", "trial", "journey", "flight", "game",
    "match", "lot", "job", "order", "case", "cycle", "experiment",
)  # fmt: skip
# Things and people that come back: the cluster if something finer is an episode, else the episode itself.
ENTITY = (
    "cluster", "patient", "person", "participant", "subject", "user", "customer", "client", "member", "machine", "reactor",
    "line", "device", "vehicle", "driver", "operator", "household", "hospital", "clinic", "site", "store", "farm", "field",
    "block",
)  # fmt: skip
PLAIN_ID = ("id", "uuid", "key", "index", "row", "round", "n", "unnamed", "")
ID_ENDING = ("id", "uuid", "key", "no", "nr", "num", "number", "index", "idx")
STEP = ("step", "decision", "run", "slot", "round", "turn", "sequence", "seq", *ID_ENDING)
DECISION = (*STEP, "period", "stage", "phase", "position", "t", "day", "week", "hour", "visit", "order")
TIME = ("time", "timestamp", "date", "datetime", "started", "start", "created", "began", "ts", "utime", "datum")
# Times at which something was over; when that is may depend on what was decided.
END = (
    "end", "ended", "finish", "finished", "completed", "completion", "delivered", "delivery", "closed", "resolved", "shipped",
    "returned", "paid", "due", "ende", "fertig", "geliefert", "lieferdatum", "abgeschlossen",
)  # fmt: skip
DAY = (*TIME, "day", "tag", "week", "woche", "month", "monat")
# What tells the units of one day apart.
SHIFT = ("shift", "schicht", "crew", "team", "turno", "slot", "session", "half", "period", "hour", "stunde")

ACTION = (
    "action", "arm", "treatment", "treat", "decision", "choice", "chosen", "option", "variant", "offer", "intervention",
    "setting", "dose", "item", "control", "assignment", "assigned", "drug", "therapy", "setpoint", "a",
)  # fmt: skip
PROPENSITY = (
    "propensity", "propensities", "pscore", "probability", "prob", "probs", "proba", "prop", "p", "pr", "mu", "chance", "chances",
    "wahrscheinlichkeit", "probabilidad", "probabilidade", "probabilite", "probabilita",
)  # fmt: skip
DENSITY = ("density", "dens", "pdf", "dichte", "densidad", "densidade", "densite", "densita")
# What may stand beside a propensity word without naming an action.
LOGGER = ("score", "action", "taken", "logged", "logging", "behavior", "behaviour", "legacy", "log")
TARGET = ("target", "pi", "new", "candidate", "eval", "evaluation", "estimated", "fitted", "recovered")
MASK = ("can", "available", "avail", "availability", "allowed", "eligible", "mask", "is", "possible", "feasible")
BASE = ("base", "planned", "meant", "intended", "greedy", "recommended", "proposed", "default", "soll", "geplant")
# Beside an action of the same values.
INTENTION = (
    *BASE, "setpoint", "sollwert", "vorgabe", "plan", "vorschlag", "empfehlung", "suggested", "nominal", "commanded",
)  # fmt: skip
# What was done after all.
EXECUTION = ("ist", "actual", "done", "applied", "taken", "real", "executed", "gefahren", "istwert")

REWARD = (
    "reward", "margin", "profit", "payoff", "utility", "return", "revenue", "gain", "benefit", "value", "score", "click",
    "conversion", "yield", "outcome", "kpi", "r", "y", "spend", "sales", "gewinn", "ertrag", "cost", "loss", "regret", "kosten",
    "costs", "scrap", "ausschuss", "waste", "defects", "rework", "energy", "downtime", "penalty", "emissions", "umsatz", "erlos",
    "deckungsbeitrag", "marge", "complaints", "reklamation", "beschwerde",
)  # fmt: skip
COST = (  # German compounds and their plurals fall apart, see below: `Reklamationen` holds reklamation
    # what it costs
    "cost", "costs", "expense", "expenses", "expenditure", "loss", "losses", "regret", "penalty", "penalties", "refund",
    "refunds", "kosten", "ausgaben", "aufwand", "verlust", "strafe", "strafen", "schaden", "schaeden",
    # what goes wrong
    "error", "errors", "defect", "defects", "defective", "failure", "failures", "fault", "faults", "reject", "rejects",
    "rework", "deviation", "incident", "incidents", "accident", "accidents", "injury", "injuries", "harm", "mortality",
    "deaths", "readmission", "readmissions", "infections", "fehler", "mangel", "maengel", "nacharbeit", "abweichung",
    "unfall", "unfalle", "unfaelle",
    # what customers do about it
    "complaint", "complaints", "cancellation", "cancellations", "churn", "attrition", "reklamation", "beschwerde", "storno",
    "stornos", "stornierungen", "retoure", "retouren", "kundigungen", "kuendigungen",
    # what is used up or given off
    "waste", "scrap", "spoilage", "leakage", "energy", "electricity", "fuel", "consumption", "kwh", "mwh", "emission",
    "emissions", "co2", "nox", "carbon", "pollution", "noise", "wear", "abfall", "abfaelle", "ausschuss", "schrott", "mull",
    "muell", "abwasser", "energie", "kraftstoff", "treibstoff", "verbrauch", "larm", "laerm", "verschleiss", "leckage",
    # time that is lost
    "downtime", "delay", "delays", "lateness", "latency", "wait", "waiting", "backlog", "outage", "outages", "breakdowns",
    "stillstand", "ausfall", "ausfaelle", "storung", "storungen", "stoerung", "stoerungen", "wartezeit", "wartezeiten",
    "verspatung", "verspatungen", "verspaetung", "verspaetungen", "verzug", "verzogerung", "verzoegerung", "ruckstand",
    "rueckstand",
)  # fmt: skip
# Beside a word of the list above they turn it round: `cost_saved` is the better the more there is of it.
GAIN = (
    "saving", "savings", "saved", "avoided", "prevented", "reduction", "reduced", "efficiency", "recovered", "yield", "gain",
    "profit", "margin", "revenue", "reward", "score", "return", "produced", "generated", "sold", "ersparnis", "einsparung",
    "einsparungen", "eingespart", "gespart", "vermieden", "reduktion", "reduzierung", "minderung", "senkung", "effizienz",
    "erzeugt", "erzeugung", "gewinn", "ertrag", "erlos",
)  # fmt: skip
RESULT = (
    "outcome", "result", "next", "after", "final", "effect", "y", "visited", "converted", "clicked", "purchased", "bought",
    "responded", "passed", "failed", "survived", "died", "readmitted", "inspection", "ergebnis", "resolved",
    "returned", "cancelled", "renewed", "retained", "accepted", "sold", "paid", "won", "lost", "cured", "bestanden", "gekauft",
    "verkauft", "reklamiert",
)  # fmt: skip
# Words for a result, if the column stands behind the action; before it they may be those of a material or an earlier step.
LATE_RESULT = (
    "quality", "qualitat", "ok", "nok", "good", "bad", "gut", "schlecht", "gutteil", "gutteile", "pass", "fail", "defect",
    "defective", "reject", "rejected", "rejects", "error", "errors", "fehler", "prufung", "pruefung", "test", "check", "checked",
    "grade", "rating", "befund", "bewertung", "note", "status", "measured", "gemessen", "messwert", "actual", "ausbeute",
    "nacharbeit", "complaint", "complaints", "reklamation", "default", "defaulted", "success", "erfolg", "churn", "churned",
)  # fmt: skip
# Words for what is known beforehand; those of a second kind only beside no word for a result (`is_ok`, `default`).
KNOWN_BEFORE = (
    "x", "context", "ctx", "feature", "features", "covariate", "pre", "before", "baseline", "previous", "prior", "prev", "lag",
    "last", "history", "age", "sex",
)  # fmt: skip
CONTEXT = (*KNOWN_BEFORE, *BASE, *MASK)
GUARD = (*COST, "adverse", "violation", "violations", "alarm", "alarms")
_LOWER = r"(?:[a-z]|[^\W\d_a-zA-Z])"  # a letter of another script counts as a small one: its words are not cut
# Signs that would fall apart otherwise, as at the change of case in `kWh`.
_SIGNS = r"(?:CO2|Co2|co2)(?![0-9])|(?:NOx|NOX|Nox|nox|[kKM]Wh|[KM]WH|[KM]wh|[km]wh)(?![A-Za-z0-9])"
_PARTS = re.compile(rf"{_SIGNS}|[A-Z]+(?!{_LOWER})|[A-Z]?{_LOWER}+|[0-9]+")
# Parts of German compounds that say what a column is: in any place, or in front of another word.
_COMPOUND = re.compile(
    r"(ausschuss|ergebnis|kosten|qualitat|ertrag|gewinn|ausbeute|fehler|nacharbeit|reklamation|beschwerde|(?<!r)emission(?!s$)"
    r"|energie|verbrauch(?!er)|verlust|abfall|ausfall|stillstand|einsparung|ersparnis|effizienz|^(?:soll|ist)(?=(?!wert)\w{4}))"
)


def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a column name in lower case: `p_Setting2` and `pSetting 2` are p, setting, 2.

    Letters lose their accents: `Prüfung` is prufung, one word. German compounds fall apart: `Ausschussquote`, `Solldrehzahl`.
    """
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss"))
    parts = _PARTS.findall("".join(c for c in plain if not unicodedata.combining(c)))
    return tuple(word for part in parts for word in _COMPOUND.split(part.lower()) if word)


def without_words(words: tuple[str, ...], leave_out: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words that are not among `leave_out`."""
    return tuple(word for word in words if word not in leave_out)


def has_word(name: str, among: tuple[str, ...]) -> bool:
    """Say whether one of the words of a name is among those given."""
    return any(word in among for word in name_words(name))


def word_rank(name: str, among: tuple[str, ...]) -> int | None:
    """Return how far down the list a name is found; the name as a whole (but for an id ending) counts before one of its words.

    None if no word of it is in the list.
    """
    parts = name_words(name)
    core = without_words(parts, ID_ENDING) or parts
    if len(core) == 1 and core[0] in among:
        return among.index(core[0])
    ranks = [among.index(word) for word in parts if word in among]
    return len(among) + min(ranks) if ranks else None


def id_word_rank(name: str, among: tuple[str, ...]) -> int | None:
    """Return the rank of a name that can be an id's: nothing but words for units, things, steps and ids.

    `batch_id` and `batch_run` can be, `batch_size` and `user_feature` cannot.
    """
    parts = name_words(name)
    if not all(part in (*EPISODE, *ENTITY, *DECISION, *PLAIN_ID) or part.isdecimal() for part in parts):
        return None
    return word_rank(name, among)
