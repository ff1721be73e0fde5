"""How wrong the logged probabilities may be: what a certificate says of it, on which units, and that it is found again."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from small_logs import better_policy, make_table, problem_of, replaced, source_of, worse_policy

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate, Certificate, LevelResult, UnitSplit, certify, load_certificate, stated_problem, verify
from aegis.certificate import unit_split as head_module
from aegis.certificate.results import GAMMAS, PLAIN_ONLY
from aegis.certificate.unit_split import choose_sensitivity_units, placing_split
from aegis.evidence import value_grid
from aegis.files import json_digest
from aegis.logs import Source, Split
from aegis.problem import Batch

GUARD = "guards: [{column: scrap, range: [0, 1], max_worsening: %s}]"


def issued(episodes: int = 200, full: bool = True, head: str = "", method: str = "auto", **more: Any) -> Certificate:
    problem = problem_of(full=full, head=head)
    return certify(
        source_of(make_table(episodes), problem), Candidate(better_policy(problem), "mine"), method=method, ledger=False, **more
    )


@pytest.fixture(scope="module")
def whole() -> Certificate:
    return issued()


def test_every_certified_scope_says_what_it_survives(whole: Certificate) -> None:
    for level in whole.levels:
        found = level.sensitivity
        assert level.verdict == "certified" and found.gamma in (1.0, *GAMMAS) and found.tried == GAMMAS
        assert found.units == level.units  # of a log as small as this all units are looked at
    assert whole.level("dose").sensitivity.gamma == 1.3
    assert whole.level("dose").sensitivity.method == "water-filled + plain" and whole.level("dose").sensitivity.reason == ""
    both = whole.level("recipe", "dose").sensitivity
    assert both.method == "plain" and both.reason == PLAIN_ONLY


def test_more_data_survive_more_up_to_the_ratio_of_the_values() -> None:
    found = [issued(episodes, scopes=[["dose"]]).level("dose") for episodes in (60, 200, 1500)]
    gammas = [level.sensitivity.gamma or 0.0 for level in found]
    assert gammas == sorted(gammas) and gammas[0] < gammas[-1]
    last = found[-1]
    assert last.value_estimate is not None and last.legacy_value is not None
    assert gammas[-1] <= last.value_estimate / last.legacy_value * 1.02


@pytest.mark.parametrize("method", ["plain", "robust"])
def test_other_methods_use_the_plain_test_and_say_if_it_is_another_one(method: str) -> None:
    found = issued(method=method, scopes=[["dose"]]).level("dose").sensitivity
    assert found.method == "plain" and found.gamma is not None and found.gamma > 1
    assert found.reason == ("" if method == "plain" else PLAIN_ONLY)


def test_the_plain_test_against_a_transcription() -> None:
    """Weights, means, bets and wealth in plain numpy, from the columns of the log."""
    certificate = issued(160, full=False, scopes=[["dose"]], what=("gain",))
    level = certificate.level("dose")
    (test,) = level.tests
    table = make_table(160)
    sides = UnitSplit((Split.of(certificate.splits[0]),))
    batch = source_of(table, problem_of(full=False)).read()
    kept = np.isin(table["batch"].to_numpy(), batch.episode[sides.certified(problem_of(), batch)])
    pi, nu, reward = (table[name].to_numpy()[kept] for name in ("new_dose", "p_dose", "margin"))
    grid = value_grid(test.centres[0])
    survived = 1.0
    for gamma in GAMMAS:
        gains = ((pi / np.minimum(1.0, gamma * nu) - 1.0) * reward).reshape(-1, 3).mean(axis=1)
        logs = np.log1p(grid.bets[:, None] * (gains + 1.0)).sum(axis=1) - gains.size * np.log1p(grid.bets)
        if np.log(np.exp(grid.log_weights + logs).sum()) < math.log(1.0 / test.delta):
            break
        survived = gamma
    assert level.sensitivity.gamma == survived and 1 < survived < 10 and level.sensitivity.units == kept.sum() // 3


def test_what_is_not_certified_has_no_factor_but_a_reason() -> None:
    problem = problem_of()
    waiting = certify(source_of(make_table(60), problem), Candidate(worse_policy(problem), "mine"), ledger=False)
    for level in waiting.levels:
        assert level.sensitivity.gamma is None and "not certified" in level.sensitivity.reason
        assert level.sensitivity.tried == () and level.sensitivity.units == 0
    wrong = make_table(60)
    wrong = wrong.set_column(wrong.column_names.index("margin"), "margin", [[7.0] * 180])
    for level in certify(source_of(wrong, problem), Candidate(better_policy(problem), "mine"), ledger=False).levels:
        assert level.verdict == "refused" and level.sensitivity.gamma is None and level.sensitivity.reason


def test_guards_have_to_survive_too() -> None:
    """Nothing is ever scrapped, whoever acts. Lower weights look like scrap, which is allowed up to some amount only."""
    table = replaced(make_table(200), "scrap", np.zeros(600))
    found = []
    for allowed in (0.9, 0.12, 0.0):
        problem = problem_of(head=GUARD % allowed)
        candidate = Candidate(better_policy(problem), "mine")
        found.append(certify(source_of(table, problem), candidate, scopes=[["dose"]], ledger=False).level("dose"))
    loose, tight, strict = found
    assert loose.verdict == "certified" and loose.sensitivity.gamma == 1.3
    assert tight.verdict == "certified" and tight.sensitivity.gamma in (1.02, 1.05)
    assert strict.verdict == "not yet" and strict.sensitivity.gamma is None and "scrap" in strict.sensitivity.reason


def test_what_lies_behind_the_first_failure_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([True, True, False, True, True, True, True, True, True, True])
    monkeypatch.setattr("aegis.certificate.results.survives", lambda evidence: next(answers))
    assert issued(60, scopes=[["dose"]]).level("dose").sensitivity.gamma == GAMMAS[1]


def test_capped_candidates_survive_as_well() -> None:
    learned = learn(source_of(make_table(200)), Split("hash", "k", 0.4), CandidateSettings("capped", 1.5))
    found = certify(source_of(make_table(200)), learned, ledger=False)
    assert {level.sensitivity.gamma for level in found.levels if level.verdict == "certified"} - {1.0}


def heads(rows: int = 50, cluster: bool = False, seed: int | None = None) -> tuple[Any, list[Batch]]:
    problem = problem_of(head="cluster: line" if cluster else "")
    table = make_table(80)
    if seed is not None:
        table = table.take(np.random.default_rng(seed).permutation(240))
    return problem, list(source_of(table, problem).batches(rows=rows))


@pytest.mark.parametrize("cluster", [False, True])
def test_held_units_are_whole_few_and_the_same_in_any_order(cluster: bool) -> None:
    sides = UnitSplit((placing_split(None),))
    problem, head = heads(cluster=cluster)
    everything = choose_sensitivity_units(problem, sides, head, 10**6)
    assert everything is not None
    certified = {name for batch in head for name in batch.episode[sides.certified(problem, batch)]}
    assert set(everything.episode) == certified
    few = choose_sensitivity_units(problem, sides, head, most=30)
    assert few is not None and 30 <= len(few.levels["dose"]) < 30 + (12 if cluster else 3)
    if cluster and few.cluster is not None and everything.cluster is not None:
        for name in set(few.cluster):
            assert (few.cluster == name).sum() == (everything.cluster == name).sum()
    for rows, seed in ((500, None), (35, 4)):
        again = choose_sensitivity_units(*_with_sides(*heads(rows, cluster, seed), sides), most=30)
        assert again is not None and set(again.episode) == set(few.episode)
    assert choose_sensitivity_units(problem, UnitSplit((Split("hash", "k", 0.5), Split("hash", "j", 0.5))), head[:0], 30) is None


def _with_sides(problem: Any, head: list[Batch], sides: UnitSplit) -> tuple[Any, UnitSplit, list[Batch]]:
    return problem, sides, head


def test_long_logs_are_looked_at_in_part(monkeypatch: pytest.MonkeyPatch, whole: Certificate) -> None:
    monkeypatch.setattr("aegis.certificate.scan.MOST_SENSITIVITY_ROWS", 90)
    found = issued().level("dose")
    assert found.sensitivity.units == 30 and found.units == whole.level("dose").units
    assert replace_sensitivity(found) == replace_sensitivity(whole.level("dose"))  # nothing else moves


def replace_sensitivity(level: LevelResult) -> LevelResult:
    return replace(level, sensitivity=LevelResult.__dataclass_fields__["sensitivity"].default)


def test_clusters_that_may_go_on_behind_the_head_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    found = issued(head="cluster: line", scopes=[["dose"]]).level("dose")
    assert found.sensitivity.gamma is not None and found.sensitivity.units == found.units < 50  # clusters of four episodes
    monkeypatch.setattr(head_module, "HEAD_ROWS", 100)
    batches = Source.batches
    monkeypatch.setattr(Source, "batches", lambda self, *rest, **more: batches(self, *rest, **{**more, "rows": 60}))
    found = issued(250, head="cluster: line", scopes=[["dose"]]).level("dose")
    assert found.verdict == "certified"
    assert found.sensitivity.gamma is None and "clusters may go on" in found.sensitivity.reason
    assert issued(scopes=[["dose"]]).level("dose").sensitivity.units < 60  # of episodes the head is enough


def test_it_is_found_again_bit_for_bit_and_a_changed_one_is_noticed(tmp_path: Path) -> None:
    pq.write_table(make_table(120), tmp_path / "log.parquet")
    problem = problem_of(head=GUARD % 0.3)
    candidate = Candidate(better_policy(problem), "mine")
    certify(Source([tmp_path / "log.parquet"], problem), candidate, ledger=False).save(tmp_path / "certificate.json")
    content = load_certificate(tmp_path / "certificate.json")
    assert any(level["sensitivity"]["gamma"] for level in content["levels"])
    source = Source([tmp_path / "log.parquet"], stated_problem(content))
    assert verify(content, source, [candidate]).holds
    changed = json.loads(json.dumps(content))
    changed["levels"][0]["sensitivity"]["gamma"] = 10.0
    changed["seal"] = json_digest({key: value for key, value in changed.items() if key != "seal"})
    found = verify(changed, source, [candidate])
    assert [item.what for item in found.differences] == ["mine at dose: sensitivity"]
