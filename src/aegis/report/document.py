"""The certificate as a page reads it: checked, with the words, the scale and the faces of verdicts that every section shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from aegis.certificate import CERTIFIED, NOT_YET, REFUSED, check_sealed
from aegis.report.numbers import Amounts
from aegis.report.svg import tag

Plain = Mapping[str, Any]
Row = dict[str, Any]  # what a template writes, by the names that it uses


@dataclass(frozen=True, slots=True)
class Document:
    """The plain data of a certificate, its main result, and how amounts are written.

    main: the result that the verdict speaks of; None if it speaks of none. order: the level names, outermost first.
    """

    content: Plain
    main: Plain | None
    order: tuple[str, ...]
    amounts: Amounts
    unit: str
    per: str

    @classmethod
    def of(cls, content: Plain) -> Document:
        """Return the document; InputError if the content is not a certificate, or not as it was issued."""
        check_sealed(content)
        problem = content["problem"]
        levels = content["levels"]
        main = _main(content["summary"], levels)
        leading = levels if main is None else [main]  # whose gains decide how many decimals the page has
        gains = [level[key] for level in leading if level["verdict"] != REFUSED for key in ("gain_lower", "estimate", "margin")]
        order = tuple(str(level["name"]) for level in problem.get("levels") or ())
        unit = content["summary"]["unit"] or ""
        return cls(content, main, order, Amounts.of(gains), unit, per_words(problem))

    @property
    def verdict(self) -> Plain:
        """Return the verdict over all."""
        verdict: Plain = self.content["summary"]
        return verdict

    @property
    def levels(self) -> Sequence[Plain]:
        """Return the results by candidate and scope, the main one first."""
        return sorted(self.content["levels"], key=lambda level: level is not self.main)

    @property
    def refused(self) -> bool:
        """Say whether the certificate as a whole is refused."""
        return bool(self.verdict["verdict"] == REFUSED)

    @property
    def several(self) -> bool:
        """Say whether there is more than one candidate, so that rows name it."""
        return len({level["candidate"] for level in self.content["levels"]}) > 1

    @property
    def minimise(self) -> bool:
        """Say whether small rewards are good."""
        return bool((self.content["problem"].get("reward") or {}).get("goal") == "minimise")

    @property
    def measure(self) -> str:
        """Return what amounts are: their unit, else the name of the reward column."""
        return self.unit or str((self.content["problem"].get("reward") or {}).get("column", "reward"))

    @property
    def unit_word(self) -> str:
        """Return what the units of evidence are called."""
        return str(self.verdict["unit_word"])

    def diagnostics(self, name: str) -> list[Plain]:
        """Return a list of the diagnostics; empty if the certificate has no such list."""
        return list(self.content["diagnostics"].get(name) or ())

    def scope(self, item: Plain) -> str:
        """Return the scope of a result or a diagnostic in words."""
        return join_scope(item.get("scope") or (), self.order)

    def title(self, item: Plain) -> str:
        """Return the scope of a result, with its candidate where there are several."""
        return f"{self.scope(item)} ({item['candidate']})" if self.several and item.get("candidate") else self.scope(item)

    def is_main(self, item: Plain) -> bool:
        """Say whether a diagnostic belongs to the candidate and scope of the main result."""
        return self.main is not None and _same(item, self.main)

    def is_refused(self, item: Plain) -> bool:
        """Say whether a result, or a diagnostic of that candidate and scope, is refused, so that no bound of it may be shown."""
        if self.refused or item.get("verdict") == REFUSED:
            return True
        return any(level["verdict"] == REFUSED and _same(item, level) for level in self.content["levels"])


def _main(verdict: Plain, levels: Sequence[Plain]) -> Plain | None:
    return next((level for level in levels if _same(level, verdict)), None)


def _same(one: Plain, other: Plain) -> bool:
    return one.get("candidate") == other.get("candidate") and set(one.get("scope") or ()) == set(other.get("scope") or ())


def name_or_none(value: object) -> str:
    """Return a name as it was given, or that there is none."""
    return "not named" if value is None else str(value)


def join_scope(scope: Sequence[str], order: Sequence[str] = ()) -> str:
    """Return the levels of a scope as the user calls them, outermost first where the order is known."""
    places = {name: place for place, name in enumerate(order)}
    return " + ".join(sorted(scope, key=lambda name: places.get(name, 0))) or "no level"


def per_words(problem: Mapping[str, Any]) -> str:
    """Return what one amount of the reward belongs to."""
    cluster = problem.get("cluster")
    if isinstance(cluster, Mapping):
        return "per possible episode"
    per = (problem.get("reward") or {}).get("per", "decision")
    if per == "episode":
        return "per episode"
    levels = problem.get("levels") or ()
    name = levels[-1]["name"] if per == "decision" and levels else None if per == "decision" else per
    return "per decision" if name is None else f"per decision at \u2018{name}\u2019"


ESTIMATE_NOTE = "estimate, not a certificate"


@dataclass(frozen=True, slots=True)
class Face:
    """How a verdict looks: a word, a class for its colour and border, and an icon whose shape tells it without colour."""

    word: str
    style: str
    icon: Markup


def _icon(*shapes: Markup) -> Markup:
    return tag("svg", *shapes, viewBox="0 0 48 48", class_="icon", aria_hidden="true", focusable="false")


def _stroke(path: str, width: float = 5) -> Markup:
    return tag("path", d=path, class_="icon-line", stroke_width=width)


TICK = _icon(tag("circle", cx=24, cy=24, r=22, class_="icon-body"), _stroke("M13 25 L21 33 L35 16"))

GLASS = _icon(
    tag("path", d="M24 2 L46 24 L24 46 L2 24 Z", class_="icon-body"),
    _stroke("M16 13 H32 M16 35 H32 M18 13 C18 20 24 21 24 24 C24 21 30 20 30 13 M18 35 C18 28 24 27 24 24 C24 27 30 28 30 35", 3),
)

STOP = _icon(
    tag("path", d="M15 2 H33 L46 15 V33 L33 46 H15 L2 33 V15 Z", class_="icon-body"), _stroke("M15 15 L33 33 M33 15 L15 33")
)

ALERT = _icon(tag("path", d="M24 3 L46 44 H2 Z", class_="icon-body"), _stroke("M24 17 V29 M24 36.5 V37"))

DOT = _icon(tag("circle", cx=24, cy=24, r=10, class_="icon-body"))


VERDICT_FACES: dict[str, Face] = {
    CERTIFIED: Face("Certified", "certified", TICK),
    NOT_YET: Face("Not yet", "not-yet", GLASS),
    REFUSED: Face("Refused", "refused", STOP),
}


def verdict_face(verdict: str | None) -> Face:
    """Return how a verdict looks; any other word looks neutral."""
    word = str(verdict or "unknown")
    return VERDICT_FACES.get(word) or Face(word[:1].upper() + word[1:], "neutral", DOT)
