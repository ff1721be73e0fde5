"""Verify: recompute a certificate from the log and the policies it names, and list what differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aegis.certificate.candidate import Candidate
from aegis.certificate.certificate import CERTIFICATE_KIND, Certificate
from aegis.certificate.certify import LookTerms, issue_certificate
from aegis.certificate.digests import changed_rows, rows_reordered
from aegis.certificate.request import Request
from aegis.certificate.risk import CHOSEN_AFTER_RESULTS, RISK_SPENT, RiskShare
from aegis.errors import RefusedError
from aegis.logs import Source
from aegis.problem import Problem, parse_problem, write_yaml
from aegis.version import __version__

PATH_SUFFIX = ": path"
LOOK_CODES = ("earlier-looks", "damaged-ledger")  # findings about the ledger


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One thing that is not as the certificate says: what, what it says, what was found (both None if `what` says it all).

    cause: whether it is something a certificate is computed from (a file, a row, a policy, the problem, a setting), not a result.
    """

    what: str
    stated: Any
    found: Any
    cause: bool = True

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        return {"what": self.what, "stated": self.stated, "found": self.found, "cause": self.cause}

    @property
    def detail(self) -> bool:
        """Say whether it only tells more about the difference before it."""
        return self.stated is None and self.found is None

    def __str__(self) -> str:
        if self.detail:
            return self.what
        return f"{self.what}: the certificate says {self.stated}, found {self.found}"


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether a certificate was found again bit for bit; notes are about what cannot be compared, such as other versions."""

    differences: tuple[Discrepancy, ...]
    notes: tuple[str, ...]
    recomputed: Certificate

    @property
    def holds(self) -> bool:
        """Say whether nothing differs."""
        return not self.differences

    @property
    def causes(self) -> tuple[Discrepancy, ...]:
        """Return what differs of that which a certificate is computed from."""
        return tuple(item for item in self.differences if item.cause)

    @property
    def results(self) -> tuple[Discrepancy, ...]:
        """Return what differs of that which was computed: it follows from the causes, if there are any."""
        return tuple(item for item in self.differences if not item.cause)

    @property
    def same_numbers(self) -> bool:
        """Say whether every result is the same but for the path of the bound, which goes through the units in the log's order."""
        return all(item.what.endswith(PATH_SUFFIX) for item in self.results)


def stated_problem(content: Mapping[str, Any], source: str = CERTIFICATE_KIND) -> Problem:
    """Return the problem that a certificate was issued for."""
    return parse_problem(write_yaml(dict(content["problem"])), source)


def verify(
    content: Mapping[str, Any], source: Source, candidates: Sequence[Candidate], incumbent: Candidate | None = None
) -> Verification:
    """Recompute a stored certificate and list what differs.

    Nothing is written into a ledger: to compute the same again, at the risk that it was tested at, is not another look.

    Parameters
    ----------
    content
        The certificate, as `load_certificate` returns it.
    source
        The log.
    candidates
        The candidates that the certificate is about, in their order.
    incumbent
        The incumbent, if it was stated as a policy.

    Returns
    -------
    Verification
        The differences, and notes on what cannot be compared.

    Raises
    ------
    RefusedError
        The ledger refused the request, so that there are no numbers to verify.
    """
    for item in content["findings"]:  # there are no numbers, and computing them would be a look
        if item.get("code") in (CHOSEN_AFTER_RESULTS, RISK_SPENT):
            raise RefusedError(f"there is nothing to verify: {item['message']} [{item['code']}]; the log was not looked at")
    settings = content["settings"]
    # Where a policy is kept now makes no difference: candidates have the names that they had.
    known = zip(candidates, content["candidates"], strict=False)
    named = [replace(candidate, name=item["name"], reference=item["reference"]) for candidate, item in known]
    asked = {name: settings[name] for name in ("delta", "method", "what", "fresh", "by", "others") if name in settings}
    scopes = settings["scopes"] if settings["asked"] else None
    request = Request.of(source.problem, [*named, *candidates[len(named) :]], scopes=scopes, incumbent=incumbent, **asked)
    share = RiskShare.of(settings["delta"], settings.get("risk"))
    again = issue_certificate(source, request, LookTerms(ledger=False, share=share), now=content["created"])
    content_now = again.to_json()
    same_rows = _same_rows(content, content_now)
    differences = [*_digests(content, content_now), *_policies(content, content_now, same_rows), *_results(content, content_now)]
    notes = [  # code in another file that does the same
        f"the file that the code of {before['name']} is in has changed; on the certified rows it behaves as it did"
        for before, after in zip(content["candidates"], content_now["candidates"], strict=False)
        if before.get("code") != after.get("code") and same_rows and before.get("behaviour") == after.get("behaviour")
        if "code" in before
    ]
    stated_version = content["versions"].get("aegis")
    if stated_version != __version__:
        notes.append(
            f"the certificate was issued by version {stated_version}, this is {__version__}: numbers may differ for that"
        )
    return Verification(tuple(differences), tuple(notes), again)


def _compare(what: str, stated: Any, now: Any, cause: bool = True) -> list[Discrepancy]:
    """Return a discrepancy if two things differ; long ones are cut short."""
    if stated == now:
        return []
    short = [item if len(str(item)) <= 80 else f"{str(item)[:77]}..." for item in (stated, now)]
    return [Discrepancy(what, short[0], short[1], cause)]


def _digests(stated: Mapping[str, Any], current: Mapping[str, Any]) -> list[Discrepancy]:
    differences = _compare("the problem", stated["digests"]["problem"], current["digests"]["problem"])
    if stated["digests"]["data"] == current["digests"]["data"]:
        return differences
    was, now = _files(stated), _files(current)
    if len(was) != len(now):
        return [*differences, Discrepancy("the log: number of files", len(was), len(now))]
    for before, after in zip(was, now, strict=True):
        if before["digest"] != after["digest"]:
            differences.append(Discrepancy(f"the log: {after['name']}", before["digest"], after["digest"]))
            differences += [Discrepancy(f"{after['name']}, {text}", None, None) for text in _rows(before, after)]
    return differences or [Discrepancy("the log", stated["digests"]["data"], current["digests"]["data"])]


def _files(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the files of a certificate, each with the checksums of its rows, or None."""
    files = content["digests"]["files"]
    rows = content["diagnostics"].get("rows") or [None] * len(files)
    return [{**file, "rows": own} for file, own in zip(files, rows, strict=True)]


def _rows(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return in words what became of the rows of a file; nothing if the checksums of either are not known."""
    was, now = before.get("rows"), after.get("rows")
    if was is None or now is None:
        return []
    if rows_reordered(was, now):
        return ["the same rows in another order"]
    return changed_rows(was, now) or ["the same rows as far as they are read, written otherwise"]


def _same_rows(stated: Mapping[str, Any], current: Mapping[str, Any]) -> bool:
    """Say whether the log holds the same rows as far as it is read: the same files, or others with the same checksums."""
    if stated["digests"]["data"] == current["digests"]["data"]:
        return True
    was, now = _files(stated), _files(current)
    known = [file.get("rows") for file in (*was, *now)]
    return len(was) == len(now) and None not in known and known[: len(was)] == known[len(was) :]


def _policies(stated: Mapping[str, Any], current: Mapping[str, Any], same_rows: bool) -> list[Discrepancy]:
    differences = []
    for before, after in zip(stated["candidates"], current["candidates"], strict=False):
        differences += _compare(f"the policy {before['name']}", before["digest"], after["digest"])
        was, now = before.get("behaviour") or {}, after.get("behaviour") or {}
        levels = [level for level in was if level in now and was[level] != now[level]]
        if levels and same_rows:  # on other rows every policy does something else
            what = f"the policy {before['name']} behaves differently at {', '.join(levels)}"
            differences.append(Discrepancy(what, {name: was[name] for name in levels}, {name: now[name] for name in levels}))
    return differences + _compare("number of candidates", len(stated["candidates"]), len(current["candidates"]))


def _results(stated: Mapping[str, Any], current: Mapping[str, Any]) -> list[Discrepancy]:
    """Compare every number of the results, the sums of the sketches to the last bit, and name the first that differ."""
    differences: list[Discrepancy] = []
    stated = {**stated, "settings": {"risk": current["settings"]["risk"], **stated["settings"]}}  # earlier versions lack it
    for name in ("verdict", "summary", "splits", "counts", "settings", "assumptions", "blocking"):
        differences += _compare(name, stated[name], current[name], cause=name == "settings")
    for name in ("unsmoothed", "subgroups"):
        differences += _compare(name, stated["diagnostics"].get(name), current["diagnostics"].get(name), cause=False)
    # Findings about earlier looks come from the ledger, which is not read here.
    was, now = ([item for item in content["findings"] if item.get("code") not in LOOK_CODES] for content in (stated, current))
    differences += _compare("findings", was, now, cause=False)
    differences += _compare("number of scopes", len(stated["levels"]), len(current["levels"]), cause=False)
    if len(stated["levels"]) != len(current["levels"]):
        return differences
    for before, after in zip(stated["levels"], current["levels"], strict=True):
        where = f"{before['candidate']} at {' + '.join(before['scope'])}"
        for key, value in before.items():
            differences += _compare(f"{where}: {key}", value, after.get(key), cause=False)
    return differences
