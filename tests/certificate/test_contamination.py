"""A policy is never certified on what it was learned from, whatever the episodes, columns or files are called by then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pytest
from small_logs import better_policy, make_table, problem_of, replaced, saved, source_of

from aegis.agents import CandidateSettings, Learned, learn
from aegis.certificate import REFUSED, Candidate, Certificate, certify
from aegis.certificate.candidate import CONTAMINATION_ALPHA, SeenEpisodes
from aegis.errors import RefusedError
from aegis.logs import Source, Split
from aegis.problem import Batch, EpisodeFingerprints, Problem, episode_hashes, parse_problem
from aegis.rng import stream

EPISODES = 240


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return make_table(EPISODES)


@pytest.fixture(scope="module")
def learned(table: pa.Table) -> Learned:
    return learn(source_of(table), Split("hash", "k", 0.5), CandidateSettings("capped", 2.0))


def certified(log: Any, candidate: Any, problem: Problem | None = None, **more: Any) -> Certificate:
    return certify(Source(log, problem or problem_of()), candidate, ledger=False, **more)


def renamed(table: pa.Table) -> pa.Table:
    return replaced(table, "batch", [f"new-{name}" for name in table["batch"].to_pylist()])


def refused(certificate: Certificate, *words: str) -> None:
    assert certificate.verdict.verdict == REFUSED, certificate.verdict.sentence
    for word in words:
        assert word in certificate.verdict.sentence
    assert all(level.gain_lower is None for level in certificate.levels)


def test_the_record_says_what_was_hashed_and_seen(table: pa.Table, learned: Learned) -> None:
    problem = problem_of()
    assert learned.record["units"] == {"episode": ["batch"], "cluster": None, "time": None}
    prior = source_of(table).read(side="prior", split=learned.split)
    seen = EpisodeFingerprints.of(learned.record["fingerprints"])
    assert (seen.episodes, seen.single) == (len(prior), len(prior))
    assert np.array_equal(seen.hashes, np.sort(episode_hashes(prior)))
    assert learned.record["log"]["digests"] == [source_of(table, problem).files[0].digest().hex()]


def test_the_other_side_of_the_same_log_is_not_recognised(table: pa.Table, learned: Learned) -> None:
    certificate = certified(table, learned)
    assert certificate.verdict.verdict == "certified"
    assert "no-fingerprints" not in [found["code"] for found in certificate.findings]


def test_renamed_ids_are_recognised(table: pa.Table, learned: Learned) -> None:
    refused(certified(renamed(table), learned), "of the certified episodes are among those that", "for example episode new-")


def test_a_longer_log_is_not_fresh(table: pa.Table, learned: Learned) -> None:
    longer = pa.concat_tables([table, renamed(make_table(20, seed=8))])
    refused(certified(longer, learned, fresh=True), "of the certified episodes are among those that")
    assert certified(longer, learned).verdict.verdict == "certified"  # as a log that grew, split by the same ids


def test_another_export_is_not_fresh(table: pa.Table, learned: Learned, tmp_path: Path) -> None:
    order = np.random.default_rng(3).permutation(table.num_rows)
    csv.write_csv(renamed(table).take(pa.array(order)), tmp_path / "export.csv")
    refused(certified(tmp_path / "export.csv", learned, fresh=True), "of the certified episodes are among those that")


def test_a_few_copies_are_enough(table: pa.Table, learned: Learned) -> None:
    """Episodes with measured contexts never come twice by chance: a twelfth of copies among new ones is noticed."""
    prior = source_of(table).read(side="prior", split=learned.split)
    copies = np.isin(table["batch"].to_numpy(zero_copy_only=False), np.array(prior.episode)[:20])
    mixed = pa.concat_tables(
        [
            renamed(make_table(EPISODES, seed=5)),
            replaced(table, "batch", [f"c{k}" for k in table["batch"].to_pylist()]).filter(pa.array(copies)),
        ]
    )
    refused(certified(mixed, learned, fresh=True), "of the certified episodes are among those that")


def test_new_data_are_fresh(learned: Learned) -> None:
    certificate = certified(make_table(EPISODES, seed=5), learned, fresh=True)
    assert certificate.verdict.verdict == "certified" and certificate.counts["certified_episodes"] > 200


def test_a_file_of_the_log_is_not_fresh(table: pa.Table, tmp_path: Path) -> None:
    one, two = saved(table, tmp_path / "one.parquet"), saved(renamed(make_table(60, seed=6)), tmp_path / "two.parquet")
    found = learn(Source([one], problem_of()), Split("hash", "k", 0.5), CandidateSettings("capped", 2.0))
    refused(certified([one, two], found, fresh=True), "was learned from one.parquet, which is a part of this log")
    log = {"digest": found.record["log"]["digest"]}  # as older records have it
    old = Candidate(found.policy, "old", record={"split": found.record["split"], "log": log})
    refused(certified([two, one], old, fresh=True), "was learned from one.parquet")
    refused(certified([one, two], replace(old, record={"split": None, "log": log})), "was fitted on one.parquet")


def test_other_unit_columns_are_refused(table: pa.Table, learned: Learned) -> None:
    other = replace(problem_of(), episode=("batch", "line"))
    refused(certified(table, learned, other), "learned with other units", "episode: 'batch' (now 'batch', 'line')")
    refused(certified(table, learned, problem_of(head="cluster: line")), "cluster: none (now 'line')")
    timed = problem_of(head="time: started")
    assert certified(table, learned, timed).verdict.verdict != REFUSED  # a split by hash does not depend on times
    in_time = learn(source_of(table, timed), Split("time", fraction=0.5), CandidateSettings("capped", 2.0))
    refused(certified(table, in_time, problem_of(head="time: step")), "time: 'started' (now 'step')")


def test_other_unit_columns_are_refused_of_fresh_data_too(learned: Learned) -> None:
    """Episodes that are put together otherwise have other hashes: nothing would show that they are new."""
    other = replace(problem_of(), episode=("batch", "line"))
    refused(certified(make_table(EPISODES, seed=5), learned, other, fresh=True), "learned with other units", "learn it again")


def test_an_old_record_is_read_with_a_warning(table: pa.Table, learned: Learned) -> None:
    record = {name: value for name, value in learned.record.items() if name not in ("fingerprints", "units")}
    record["log"] = {"digest": learned.record["log"]["digest"], "files": ["frame 1"]}
    certificate = certified(table, Candidate(learned.policy, "old", record=record, rewards=learned.rewards))
    assert certificate.verdict.verdict == "certified"
    (warning,) = [found for found in certificate.findings if found["code"] == "no-fingerprints"]
    assert warning["severity"] == "warning" and "the record of old" in warning["message"]
    unlearned = certified(table, better_policy(problem_of()))
    assert "no-fingerprints" not in [found["code"] for found in unlearned.findings]


def test_fingerprints_of_other_columns_are_not_compared_in_silence(table: pa.Table, learned: Learned) -> None:
    prints = learned.record["fingerprints"]
    other = {**prints, "content": "other"}
    candidate = Candidate(learned.policy, "other", record={**learned.record, "fingerprints": other}, rewards=learned.rewards)
    assert "no-fingerprints" in [found["code"] for found in certified(table, candidate).findings]
    refused(certified(make_table(90, seed=5), candidate, fresh=True), "holds fingerprints of other columns", "learn it again")


def test_fresh_is_not_believed_without_fingerprints(learned: Learned) -> None:
    old = {name: value for name, value in learned.record.items() if name != "fingerprints"}
    candidate = Candidate(learned.policy, "old", record=old, rewards=learned.rewards)
    refused(
        certified(make_table(90, seed=5), candidate, fresh=True), "holds no fingerprints", "learn it again", "leave out --fresh"
    )


DISCRETE = """
episode: id
reward: {column: r, range: [0, 1]}
levels:
  - name: dose
    context: [{column: w, values: [u, v, w]}]
    action: {column: a, values: [x, y]}
    propensity: {policy: uniform}
"""


def discrete(episodes: int, seed: int, kinds: int = 3) -> pa.Table:
    rng = stream(seed, "discrete log")
    names = np.array(["u", "v", "w"])
    return pa.table(
        {
            "id": np.arange(episodes) + 10**6 * seed,
            "w": names[np.minimum(rng.integers(0, kinds, episodes), 2)],
            "a": np.array(["x", "y"])[rng.integers(0, 2, episodes)],
            "r": (rng.random(episodes) < 0.5).astype(float),
        }
    )


def test_episodes_that_are_alike_by_chance_are_not_recognised() -> None:
    """Twelve kinds of episodes: all of them come again in any log, which says nothing."""
    problem = parse_problem(DISCRETE)
    found = learn(Source(discrete(200, 1), problem), settings=CandidateSettings("greedy"))
    for fresh, seed in ((False, 1), (True, 2), (True, 3)):
        certificate = certify(Source(discrete(200, seed), problem), found, fresh=fresh, ledger=False)
        assert certificate.verdict.verdict != REFUSED, certificate.verdict.sentence


def test_honest_candidates_are_hardly_ever_refused() -> None:
    """Kinds of episodes with frequencies like 1/rank^1.3: by far the most false hits are expected in between few and many."""
    rng = np.random.default_rng(4)
    batch = Batch(np.arange(300), {})
    wrong = 0
    for _ in range(400):
        drawn = rng.zipf(1.3, 600).astype(np.float64)
        hashes = (drawn.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
        item = SeenEpisodes("c", EpisodeFingerprints.among([hashes[:300]], "c"))
        item.add(hashes[300:], batch, np.arange(300))
        try:
            item.check()
        except RefusedError:
            wrong += 1
    assert wrong <= 2 and CONTAMINATION_ALPHA <= 1e-4
