"""A fault campaign: rounds of faults on a cluster under load, each judged by a model that shares no code with the service.

`python tests/service/fault_campaign.py --store sqlite --faults 1000 --seed 1` prints what it showed and exits with 1 if anything
went wrong; `--record` writes it into `benchmarks/RESULTS.md`. Ctrl-C, or SIGTERM, ends it after the round that is going on.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fault_cluster import Cluster
from fault_kinds import faults_for
from fault_model import judge_history, overruns
from fault_plants import HIGH, INNERMOST, LOW
from fault_shim import Control, build_shim, compiler
from postgres_server import Server, server_folder
from served_gate import Helper

STORES = ("sqlite", "postgres")
ROUND = 40  # faults on one gate: a new one is handed over to again
TOGETHER = 0.15  # share of faults that come together with another one
WRONG_HEALTH = 3.0  # seconds that health may say that writes go through while they fail
BREATHER = 5  # faults after which one more episode has to be counted


@dataclass(slots=True)
class Summary:
    """What a campaign showed. wrong: by kind, what must not happen. health: the longest time that health was wrong, and where."""

    store: str
    faults: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, str]] = field(default_factory=list)
    health: tuple[float, str] = (0.0, "")
    decisions: list[float] = field(default_factory=list)  # seconds after their deadline
    timers: list[float] = field(default_factory=list)  # seconds by which bare timers beside them were late
    pauses: Counter[str] = field(default_factory=Counter)
    minutes: float = 0.0

    def count(self, kind: str) -> int:
        """Return how often something went wrong."""
        return sum(one == kind for one, _ in self.wrong)


def missing_for(store: str) -> str | None:
    """Return why a campaign cannot run on this machine; None if it can."""
    if compiler() is None:
        return "there is no C compiler on this machine"
    if store == "postgres" and server_folder() is None:
        return "there is no PostgreSQL server on this machine: install one, or the package pgserver"
    return None


def run_campaign(
    store: str,
    faults: int,
    seed: int,
    folder: Path,
    per_round: int = ROUND,
    show: Callable[[str], None] = lambda words: None,
    enough: threading.Event | None = None,
) -> Summary:
    """Run a campaign and return what it showed. folder: for its files; those of rounds without fault are removed.

    enough: no further round is begun once it is set.
    """
    summary, started, left, number = Summary(store), time.monotonic(), faults, 0
    shim, server, server_control = build_shim(folder), None, None
    if store == "postgres":
        binaries = server_folder()
        if binaries is None:
            raise RuntimeError("there is no PostgreSQL server on this machine")
        server = Server(binaries)
        place = Path(shutil.copy(shim, server.folder / shim.name))
        server_control = Control(place, server.folder / "control", [f"{server.folder}/data/"])
        server.more.update(server_control.environment)
        server.create()
    helpers = []
    for name in "AB":
        (folder / f"helper-{name}").mkdir()
        control = Control(shim, folder / f"{name}.control", [str(folder / "round-")])
        helpers.append((Helper(folder / f"helper-{name}", control.environment), control))
    try:
        while left > 0 and not (enough is not None and enough.is_set()):
            number += 1
            place = folder / f"round-{number}"
            place.mkdir()
            address = str(place / "gate.sqlite") if server is None else server.fresh()
            chance = random.Random(f"{seed} {number}")
            cluster = Cluster(address, place, helpers, chance, server, server_control)
            try:
                before = len(summary.wrong)
                run_round(cluster, summary, min(left, per_round), shim, show)
            finally:
                cluster.end()
                if server is not None:
                    server.drop(address)
            show(f"round {number}: {dict(summary.counts)}; wrong: {summary.wrong[before:][:5]}")
            if len(summary.wrong) == before:
                shutil.rmtree(place)
            left -= per_round
    finally:
        for helper, _ in helpers:
            helper.end()
        if server is not None:
            server.remove()
    summary.minutes = (time.monotonic() - started) / 60.0
    return summary


def run_round(cluster: Cluster, summary: Summary, faults: int, shim: Path, show: Callable[[str], None]) -> None:
    """Run one round and judge it."""
    chance = cluster.chance
    cluster.start(shim)
    cluster.wait_for_counting(20.0)
    kinds = faults_for(summary.store)
    names, weights = list(kinds), [weight for _, weight in kinds.values()]
    done = 0
    while done < faults:
        count = 2 if chance.random() < TOGETHER and faults - done > 1 else 1
        chosen = chance.choices(names, weights, k=count)
        streams = [random.Random(chance.random()) for _ in chosen]
        show(f"  {done + 1}: {' with '.join(chosen)}")
        threads = [
            threading.Thread(target=_perform, args=(cluster, name, kinds[name][0], stream))
            for name, stream in zip(chosen, streams, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        summary.faults.update(chosen)
        cluster.wait_for_writer()
        if done // BREATHER != (done + count) // BREATHER:
            cluster.wait_for_counting(15.0)
        done += count
        time.sleep(chance.uniform(0.05, 0.8))
    for gate in cluster.gates:
        gate.control.step_clock(0)
        cluster.record("clock", process=gate.process, ahead=0)
    before, after = cluster.finish()
    _judge_round(cluster, summary)
    if before != after:
        differs = {name: (before[name], after[name]) for name in before if before[name] != after[name]}
        summary.wrong.append(("replay", f"the state after a start is not the one before: {str(differs)[:1000]}"))


def _perform(cluster: Cluster, name: str, fault: Callable[[Cluster, random.Random], None], stream: random.Random) -> None:
    try:
        fault(cluster, stream)
    except Exception as error:  # a fault that the campaign cannot inflict is a defect of the campaign
        cluster.wrong.append(f"{name}: {type(error).__name__}: {error}")


def _judge_round(cluster: Cluster, summary: Summary) -> None:
    """Judge what is left of a round."""
    code, history, rows = cluster.verify(), cluster.history(), cluster.rows()
    if code != 0:
        summary.wrong.append(("verify", f"'aegis store verify' exits with {code}"))
    verdict = judge_history(history, rows, LOW, HIGH, INNERMOST)
    summary.counts.update(verdict.counts)
    summary.wrong += [(item.kind, item.words) for item in verdict.wrong]
    summary.wrong += [("campaign", words) for words in cluster.wrong]
    health = cluster.longest_wrong_health(history)
    summary.health = max(summary.health, health)
    if health[0] > WRONG_HEALTH:
        summary.wrong.append(("health", f"it said for {health[0]:.1f} s that writes go through: {health[1]}"))
    for own, more in zip((summary.decisions, summary.timers), overruns(history), strict=True):
        own += more
    summary.pauses.update(cluster.pauses)


# ---- the command -------------------------------------------------------------------------------------------------------------

TITLE = "Live gate under faults"
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
HEAD = [
    *("store", "faults", "acknowledged writes", "lost", "duplicated", "wrong otherwise", "client decisions", "late"),
    *(
        "p99.9 after the deadline, ms",
        "p99.9 of a bare timer, ms",
        "freezes",
        "flips",
        "decisions by agents",
        "takeovers",
        "health wrong, at most s",
    ),
]


def result_lines(summaries: list[Summary]) -> list[str]:
    """Return tables of campaigns, with rows of earlier ones that had more faults."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
    from results import table, with_earlier

    rows, kinds = [], []
    for item in summaries:
        name, total = NAMES[item.store], sum(item.faults.values())
        apart = [item.count(kind) for kind in ("lost", "duplicated", "late")]
        cells: list[object] = [total, item.counts["acknowledged"], *apart[:2], len(item.wrong) - sum(apart)]
        cells += [
            item.counts["client decisions"],
            apart[2],
            *(f"{_thousandth(one):.0f}" for one in (item.decisions, item.timers)),
        ]
        cells += [item.counts[kind] for kind in ("freezes", "flips", "decisions by agents", "takeovers")]
        rows.append([name, *map(str, cells), f"{item.health[0]:.1f}"])
        kinds += [[f"{name}: {kind}", str(count)] for kind, count in sorted(item.faults.items())]
    lines = [
        "Two services of one gate, two plants with keyed requests and two with `aegis.Client`, an operator who gives levels "
        "back. *Late*: after the deadline by more than 20 ms and three times as much as the latest bare timer of the same "
        "process within a second. *Health wrong*: it said 200 while writes to that process failed.",
        "",
        *table(HEAD, rows),
        "",
        *table(["fault", "faults"], kinds),
    ]
    return with_earlier(TITLE, lines, "faults")


def _thousandth(seconds: list[float]) -> float:
    """Return the milliseconds that one in a thousand exceeds."""
    return 1000.0 * sorted(seconds)[min(len(seconds) - 1, int(0.999 * len(seconds)))] if seconds else 0.0


def main() -> int:
    """Run campaigns; return 1 if anything went wrong."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--store", choices=[*STORES, "both"], default="both")
    options.add_argument("--faults", type=int, default=1000, help="on each store")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--folder", type=Path, help="for the files of rounds in which something went wrong")
    options.add_argument("--record", action="store_true", help="write the result into benchmarks/RESULTS.md")
    chosen = options.parse_args()
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="aegis-faults-"))
    summaries: list[Summary] = []
    enough = threading.Event()
    for which in (signal.SIGINT, signal.SIGTERM):
        signal.signal(which, lambda *_: enough.set())
    for store in STORES if chosen.store == "both" else (chosen.store,):
        if (reason := missing_for(store)) is not None:
            print(f"{store}: {reason}", file=sys.stderr)
            return 2
        (folder / store).mkdir(parents=True)
        words = lambda line: print(f"{time.strftime('%X')} {line}", file=sys.stderr, flush=True)  # noqa: E731
        summaries.append(run_campaign(store, chosen.faults, chosen.seed, folder / store, show=words, enough=enough))
    lines = result_lines(summaries)
    print("\n".join(lines))
    for item in summaries:
        print(f"{item.store}: {item.minutes:.0f} minutes; {dict(item.counts)}; {item.health}; {dict(item.pauses)}")
        for kind, what in item.wrong:
            print(f"WRONG {item.store} {kind}: {what}")
    wrong = any(item.wrong for item in summaries)
    if wrong:
        print(f"the files of the rounds are in {folder}")
    else:
        shutil.rmtree(folder)
    if chosen.record:
        from results import record

        record(TITLE, f"python tests/service/fault_campaign.py --faults {chosen.faults} --record", lines)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
