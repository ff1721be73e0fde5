"""What a live gate exports: a log that certifies to the gate's own numbers, bit for bit."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from inline import make_plant

from aegis.api import load_candidate
from aegis.certificate import certify
from aegis.errors import InputError, PolicyError, SettingError
from aegis.logs import Source
from aegis.ope import reward_measure
from aegis.policies import load_record, save_policy
from aegis.problem import load_problem
from aegis.service.journal_export import export_gate
from aegis.service.store.database import Database


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A gate that has handed both levels over, exported."""
    place = tmp_path_factory.mktemp("export")
    plant = make_plant(place / "gate.sqlite", upgrades=False, caps=(2.0,))
    while len(plant.live.state.opened.deployed) < 2:
        plant.run(5)
        assert plant.live.state.opened.episode < 1000
    found = export_gate(plant.live.database, "plant", place / "out")
    return plant, place / "out", found


def source_of(out):
    return Source([out / "log.parquet"], load_problem(out / "problem.yaml"))


@pytest.mark.ci
def test_the_log_holds_every_counted_episode_in_order(exported):
    plant, out, found = exported
    table = pq.read_table(out / "log.parquet")
    numbers = table["gate_episode"].to_pylist()
    assert numbers == sorted(numbers)
    assert sorted(set(numbers)) == list(range(1, plant.live.state.opened.episode + 1))
    assert set(table["gate_arm"].to_pylist()) == {"agent"}
    assert found["episodes"] == plant.live.state.opened.episode
    assert json.loads((out / "gate.json").read_text()) == found


def test_certifying_the_log_gives_the_numbers_of_the_gate(exported):
    plant, out, found = exported
    source = source_of(out)
    measure = reward_measure(source.problem)
    held = {item.challenge: item for item in plant.live.state.opened.deployed}
    assert {item["level"] for item in found["certificates"]} == {"inner", "meta"}
    for item in found["certificates"]:
        certificate = certify(source, load_candidate(str(out / item["folder"]), source.problem), ledger=False)
        (level,) = certificate.levels
        assert level.verdict == "certified"
        assert level.scope == (item["level"],)
        assert level.gain_lower == measure.gain(held[item["challenge"]].gain_lower)
        assert not [one for one in certificate.findings if one["code"] in ("no-fingerprints", "earlier-looks")]


def test_what_the_gate_certified_does_not_use_gaps(exported, tmp_path):
    _, out, found = exported
    table = pq.read_table(out / "log.parquet")
    assert set(table["gate_gap"].to_pylist()) == {False}
    flags = [number == 1 for number in table["gate_episode"].to_pylist()]
    pq.write_table(table.set_column(table.column_names.index("gate_gap"), "gate_gap", [flags]), tmp_path / "log.parquet")
    source = Source([tmp_path / "log.parquet"], load_problem(out / "problem.yaml"))
    item = found["certificates"][0]
    certificate = certify(source, load_candidate(str(out / item["folder"]), source.problem), ledger=False)
    assert certificate.levels[0].verdict == "certified"


def test_tests_that_are_fixed_take_no_other_scope_risk_or_method(exported):
    _, out, found = exported
    source = source_of(out)
    candidate = load_candidate(str(out / found["certificates"][0]["folder"]), source.problem)
    for other in ({"scopes": [["meta", "inner"]]}, {"delta": 0.01}, {"method": "plain"}):
        with pytest.raises(SettingError, match="fixed when it was frozen"):
            certify(source, candidate, ledger=False, **other)
    with pytest.raises(SettingError, match="by itself"):
        certify(source, [candidate, load_candidate(str(out / found["certificates"][1]["folder"]), source.problem)], ledger=False)


def test_a_challenge_records_the_episodes_before_its_freeze_and_counts_later_ones(exported):
    _, out, found = exported
    source = source_of(out)
    for item in found["certificates"]:
        record = load_record(out / item["folder"])
        since = record["challenge"]["event"]["since"]
        assert record["fingerprints"]["episodes"] == since - 1
        (level,) = certify(source, load_candidate(str(out / item["folder"]), source.problem), ledger=False).levels
        assert level.units == item["until"] - since + 1


def test_a_damaged_record_is_told(exported, tmp_path):
    _, out, found = exported
    folder = out / found["certificates"][0]["folder"]
    source = source_of(out)
    candidate = load_candidate(str(folder), source.problem)
    save_policy(candidate.policy, tmp_path / "damaged", {"challenge": {"event": {}}})
    with pytest.raises(PolicyError, match="record of a challenge is damaged"):
        load_candidate(str(tmp_path / "damaged"), source.problem)


def test_there_is_nothing_to_export_yet(tmp_path):
    database = Database.at(tmp_path / "gate.sqlite")
    database.upgrade()
    with pytest.raises(InputError, match="there is no gate 'plant'"):
        export_gate(database, "plant", tmp_path / "out")
    plant = make_plant(tmp_path / "gate.sqlite")
    with pytest.raises(InputError, match="has counted no whole episode yet"):
        export_gate(plant.live.database, "plant", tmp_path / "out")
