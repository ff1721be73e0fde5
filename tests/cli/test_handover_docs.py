"""docs/handover.md does what it says: its commands run, its output is the command's, its tables are those of the code."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path

import pytest
from typed import done
from typed import run as aegis

from aegis.cli.config import CONFIG_FIELDS
from aegis.handover import GATES, HOSTS, GateSettings, read_events, replay_events
from aegis.handover.events import EVENT_KINDS
from aegis.handover.gate_settings import MODES
from aegis.worlds import make_world

pytestmark = pytest.mark.usefixtures("coarse_oracle")
PAGE = (Path(__file__).parents[2] / "docs" / "handover.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    aegis (handover .*)$", PAGE, flags=re.M)
SHOWN = re.findall(r"```text\n(.*?)```", PAGE, flags=re.S)[0]


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the folder in which the first command of the page was typed, and what it printed."""
    place = tmp_path_factory.mktemp("docs")
    (place / "run.yaml").write_text(re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.S)[0])
    with contextlib.chdir(place), contextlib.redirect_stdout(io.StringIO()) as printed, pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        assert done(*shlex.split(COMMANDS[0])) == 0
    return place, printed.getvalue()


def shape(text: str) -> list[str]:
    """Return lines without trailing blanks, and with a sign for every number."""
    found = [re.sub(r"[-+]?\d+(\.\d+)?", "#", line.rstrip()) for line in text.splitlines()]
    return [re.sub(r"[ ━─]+", " ", line) for line in found]


@pytest.mark.ci
def test_the_worked_run_prints_what_the_page_shows(worked: tuple[Path, str]) -> None:
    folder, out = worked
    assert shape(out) == shape(SHOWN), "run the command of docs/handover.md again, and paste what it prints"
    flips = [int(number) for number in re.findall(r"since episode (\d+)", SHOWN)]
    found = [int(number) for number in re.findall(r"since episode (\d+)", out)]
    assert all(0.5 < one / other < 2 for one, other in zip(found, flips, strict=True))
    state = replay_events(read_events(folder / "run" / "events.jsonl"))
    assert state.episode == 300 and len(state.deployed) == 2


def test_the_python_of_the_page_runs(worked: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.chdir(worked[0]):
        for block in re.findall(r"```python\n(.*?)```", PAGE, flags=re.S):
            exec(compile(block, "docs/handover.md", "exec"), {"__name__": "page"})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("300 [('inner', ") and lines[1].startswith("Handed over: 'inner'")
    assert (worked[0] / "page.html").exists()


class Learner:
    """Proposes nothing."""

    def propose(self, history: object, levels: object, seed: int) -> dict[str, object]:
        return {}


def test_the_hosts_of_the_page_are_made() -> None:
    (block,) = re.findall(r"```py\n(.*?)```", PAGE, flags=re.S)
    world = make_world("additive")
    names = {"plant": world, "legacy": world.legacy("uniform"), "my_policy": world.legacy("sign"), "my_learner": Learner()}
    imports, calls = block.split("\n\n")
    exec(imports, names)
    made = [eval(line, names) for line in calls.splitlines()]
    assert [item.host.name for item in made] == ["ncts", "external", "external", "external"]
    assert [getattr(item.host, "levels", ()) for item in made] == [(), (), ("inner",), ()]


def test_the_file_of_the_page_runs(worked: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.chdir(worked[0]):
        (command,) = [line for line in COMMANDS if "--config" in line]
        code, _, err = aegis(*shlex.split(command), "--json", capsys=capsys)
    assert code == 0, err
    assert (worked[0] / "staged" / "report.html").exists()


def test_the_setting_of_the_paper_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (command,) = [line for line in COMMANDS if "--gate published --host" in line]
    assert command.endswith("--episodes 5000")
    assert done(*shlex.split(command.replace("--episodes 5000", "--episodes 51")), "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["settings"], result["gate_settings"]["model"]) == ({"sigma_q": 3, "eta": 1}, "linear")
    assert (result["host"], result["legacy"], result["certificate"]) == ("aegis_handover", "sign:epsilon=0.0", False)


def test_every_setting_is_on_the_page_with_its_default() -> None:
    rows = re.findall(
        r"^\| (`[a-z_]+`(?:, `[a-z_]+`)*) \| ([^|]+) \|", PAGE.split("## Settings of the gate")[1].split("\n## ")[0], flags=re.M
    )
    told: dict[str, str] = {}
    for names, values in rows:
        keys = re.findall(r"`([a-z_]+)`", names)
        told |= dict(zip(keys, [values] if len(keys) == 1 else values.split(", "), strict=True))
    defaults = dict(GateSettings())
    assert list(told) == list(defaults)
    for name, value in defaults.items():
        empty = "automatic" if name == "caps" else "all"
        words = ", ".join(f"{item:g}" for item in value) or empty if isinstance(value, tuple) else str(value)
        assert told[name].strip() == (words.lower() if isinstance(value, bool) else words), name


def test_options_hosts_gates_modes_and_events_are_on_the_page() -> None:
    for key in CONFIG_FIELDS:
        assert f"--{key}" in PAGE, key
    for name in [*GATES, *MODES, *EVENT_KINDS, *(host for host in HOSTS if host != "external")]:
        assert f"`{name}`" in PAGE, name
