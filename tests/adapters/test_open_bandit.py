"""The Open Bandit Dataset: both logs of a campaign, and the other policy as a frozen candidate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from published_samples import csv_text, impressions, write_wheel
from real_data import published

from aegis.adapters.datasets.open_bandit import CAMPAIGNS, read_open_bandit
from aegis.audit import audit_log
from aegis.errors import LogError, SettingError
from aegis.logs import Source
from aegis.policies import read_policy


def logs(campaign: str = "men") -> dict[str, list[dict[str, str]]]:
    return {"random": impressions("random", campaign, seed=1), "bts": impressions("bts", campaign, seed=2)}


def test_the_candidate_of_a_random_log_is_how_often_bts_showed_what(tmp_path: Path) -> None:
    given = logs()
    found = read_open_bandit([write_wheel(tmp_path / "obp.whl", "men", given)], campaign="men", unit="impression")
    written = found.write(tmp_path / "out")
    source = Source(written["log"], found.problem)
    batch = source.read()
    np.testing.assert_allclose(batch.levels["item"].mu_taken, 1 / 34)
    policy = read_policy(written["bts"], found.problem)
    full = policy.full("item", batch)[0]
    for index, row in enumerate(given["random"][:20]):
        here = [other for other in given["bts"] if other["position"] == row["position"]]
        shares = [sum(other["item_id"] == str(item) for other in here) / len(here) for item in range(34)]
        np.testing.assert_allclose(full[index], shares)
    clicks = np.mean([int(row["click"]) for row in given["bts"]])
    assert f"a mean of {clicks:.5f} clicks" in " ".join(found.notes)


def test_every_row_is_kept_in_both_directions(tmp_path: Path) -> None:
    given = logs()
    wheel = write_wheel(tmp_path / "obp.whl", "men", given)
    for logger, rows in given.items():
        found = read_open_bandit([wheel], "men", logger, "impression")
        made = found.table.to_pylist()
        assert [row["item"] for row in made] == [row["item_id"] for row in rows]
        assert [row["click"] for row in made] == [float(row["click"]) for row in rows]
        assert [row["propensity"] for row in made] == [float(row["propensity_score"]) for row in rows]
        assert made[1]["shown_at"].isoformat() == "2019-11-24T00:03:01.000001" and made[21]["window"] == "2019-11-24T01"
        assert list(found.policies) == [{"random": "bts", "bts": "random"}[logger]]
        batch = Source(found.table, found.problem).read()
        assert len(batch) == len(rows)
        np.testing.assert_allclose(batch.levels["item"].mu_taken, [float(row["propensity_score"]) for row in rows])
    assert [variable.name for variable in found.problem.innermost.context] == [
        "position",
        *(f"user_feature_{k}" for k in (1, 2, 3)),
    ]


def test_windows_are_hours_without_their_first_minutes_and_say_how_many_rows_that_leaves_out(tmp_path: Path) -> None:
    given = logs()
    found = read_open_bandit([write_wheel(tmp_path / "obp.whl", "men", given)], "men")
    late = [index + 1 for index, row in enumerate(given["random"]) if int(row["timestamp"][14:16]) >= 5]
    assert found.table["impression"].to_pylist() == late
    assert f"{200 - len(late)} impressions in the first 5 minutes of an hour are left out" in found.notes[0]
    batch = Source(found.table, found.problem).read()
    assert batch.cluster is not None and len(np.unique(batch.cluster)) == 10


def test_an_unpacked_copy_reads_the_same(tmp_path: Path) -> None:
    given = logs()
    wheel = read_open_bandit([write_wheel(tmp_path / "obp.whl", "men", given)], "men")
    for top in ("copy", "whole/obp/dataset/obd"):
        for logger, rows in given.items():
            place = tmp_path / top / logger / "men" / "men.csv"
            place.parent.mkdir(parents=True)
            place.write_text(csv_text(rows))
        assert read_open_bandit([tmp_path / top.split("/")[0]], "men").table.equals(wheel.table)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("item_id", "34", "row 3, column 'item_id': found '34'"),
        ("position", "4", "row 3, column 'position': found '4'; expected one of '1', '2', '3'"),
        ("click", "2", "row 3, column 'click': found '2'; expected 0 or 1"),
        ("click", "", "row 3, column 'click': found ''; expected 0 or 1"),
        ("propensity_score", "0.5", "row 3, column 'propensity_score': found '0.5'; expected 1/34"),
        ("propensity_score", "0", "row 3, column 'propensity_score': found '0'; expected a probability above 0"),
        ("timestamp", "yesterday", "row 3, column 'timestamp': found 'yesterday'; expected a time"),
    ],
)
def test_a_value_that_does_not_belong_there_is_named(tmp_path: Path, column: str, value: str, message: str) -> None:
    given = logs()
    given["random"][2][column] = value
    wheel = write_wheel(tmp_path / "obp.whl", "men", given)
    with pytest.raises(LogError, match=rf"obp.whl/obp/dataset/obd/random/men/men.csv, {message}"):
        read_open_bandit([wheel], "men")


def test_what_is_not_the_data_set_is_named(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path / "obp.whl", "men", logs())
    (tmp_path / "text.whl").write_text("not a package")
    for paths, message in (
        ([wheel, wheel], "found 2 files; expected one"),
        ([tmp_path / "none.whl"], "does not exist; expected the file obp-0.4.1"),
        ([tmp_path / "text.whl"], "cannot be read as a package file"),
        ([tmp_path], "holds neither random/men/men.csv nor"),
    ):
        with pytest.raises(LogError, match=message):
            read_open_bandit(paths, "men")
    with pytest.raises(LogError, match=r"does not hold obp/dataset/obd/random/women/women\.csv"):
        read_open_bandit([wheel], "women")
    with pytest.raises(SettingError, match="unknown campaign 'mens'"):
        read_open_bandit([wheel], "mens")
    given = logs()
    for row in given["bts"]:
        row["position"] = "1"
    with pytest.raises(LogError, match="nothing was shown at position 2"):
        read_open_bandit([write_wheel(tmp_path / "one.whl", "men", given)], "men")


@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_the_published_file(campaign: str) -> None:
    wheel = published("open-bandit") / "obp-0.4.1-py3-none-any.whl"
    found = read_open_bandit([wheel], campaign, "bts", "impression")
    assert found.table.num_rows == 10_000
    assert found.problem.innermost.actions.count == CAMPAIGNS[campaign]


@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_draws_that_are_held_are_noticed_and_windows_mend_it(campaign: str) -> None:
    wheel = published("open-bandit") / "obp-0.4.1-py3-none-any.whl"
    for unit, refused in (("impression", ["actions-held"]), ("window", [])):
        found = read_open_bandit([wheel], campaign, unit=unit)
        audit = audit_log(Source(found.table, found.problem), found.policies["bts"])
        assert [finding.code for finding in audit.findings if finding.severity == "refused"] == refused
