"""docs/serve.md does what it says: its commands run, its tables are those of the code."""

from __future__ import annotations

import contextlib
import re
import shlex
import socket
from pathlib import Path

import pytest

from aegis.cli import main
from aegis.cli.commands import serve
from aegis.handover import ACTIONS
from aegis.handover.gate_settings import MODES
from aegis.service import app, read_models
from aegis.service.auth import ROLES
from aegis.service.http import admission, connections

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    aegis (.*)$", PAGE, flags=re.M)
SIMULATED = next(line for line in COMMANDS if "--simulate" in line)
PROBLEM = """
episode: batch
reward: {column: margin, range: [0, 40]}
levels:
  - {name: recipe, context: [task], action: {column: setting, values: [1, 2, 3, 4, 5]}, propensity: {column: p_setting}}
  - {name: dose, context: [temperature], action: {column: dose, values: [0.5, 1.0, 1.5]}, propensity: {columns: [p_1, p_2, p_3]}}
"""


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def typed(line: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(line))
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the store of the simulated plant."""
    folder = tmp_path_factory.mktemp("serve")
    with contextlib.chdir(folder):
        assert typed(f"{SIMULATED} --listen 127.0.0.1:{unused_port()}") == 0
    return folder


@pytest.mark.ci
def test_the_simulated_plant_is_counted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.chdir(place):
        assert typed("store verify --store trial.sqlite --json") == 0
    found = re.findall(r'"records": (\d+)', capsys.readouterr().out)
    assert len(found) == 1 and int(found[0]) > 40 * 6


def test_the_commands_of_the_page_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for line in COMMANDS if line.startswith(("token", "store"))]
    assert len(lines) == 18
    out = ""
    with contextlib.chdir(place):
        for line in lines:
            command, _, file = line.partition(" > ")
            assert typed(command.replace("gate.sqlite", "trial.sqlite").replace("--keep-days 90", "--keep-days 0")) == 0, line
            printed = capsys.readouterr().out
            out += printed
            if file:
                Path(file).write_text(printed)
    assert "are there, in sequence" in out and "every chain is whole" in out and "40 episodes in export" in out
    assert "have the signature of the key" in out and "have the hashes of the heads kept elsewhere" in out
    assert "40 episodes are in archive" in out and "in the archive" in out and "40 episodes in everything" in out
    assert "reactor-7: controller" in out
    assert (place / "export" / "log.parquet").exists()


def test_the_limits_of_the_page_are_those_of_the_code() -> None:
    section = PAGE.split("## How much it takes")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|", section, flags=re.M))
    shares = {
        "requests of controllers under way": admission.CONTROL,
        "requests of operators under way": admission.OPERATE,
        "requests of readers under way": admission.READ,
        "requests of strangers under way": admission.STRANGER,
    }
    times = {
        "time for the head of a request": connections.SECONDS[connections.HEAD],
        "time for the body": connections.SECONDS[connections.BODY],
        "time for a TLS handshake": connections.HANDSHAKE_SECONDS,
        "time without a request": connections.IDLE_SECONDS,
        "time in which an answer is not read": connections.STALLED_SECONDS,
    }
    rate = next(item for item in serve.command.params if item.name == "rate").default
    assert rows == {
        "limit": "value",
        "connections": f"{connections.MOST:,}, or the number of files that the process may have open less {connections.RESERVED}",
        **{name: f"{seconds:g} s" for name, seconds in times.items()},
        **{name: "{}, in {} threads".format(*admission.SHARES[kind]) for name, kind in shares.items()},
        "streams (open pages)": str(admission.SHARES[admission.STREAM][0]),
        "rate of one caller": f"{rate:,.0f} requests a second (`--rate`), twice as many at once",
        "body": f"{app.LARGEST:,} bytes",
    }
    assert f"One gate serves up to {connections.MOST:,} connections" in section
    assert (read_models.PULSE, set(read_models.VIEWS) - set(read_models.EXACT)) == (
        1.0,
        set(re.findall(r"`/v1/(\w+)`", section)),
    )


def test_the_control_system_of_the_page_goes_on_without_a_gate(tmp_path: Path) -> None:
    """The gate of the page is not there: the legacy acts, and what happened is kept for later."""
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    (block,) = re.findall(r"```py\n(.*?)```", PAGE, flags=re.S)
    for old, new in (
        ("/var/lib/plant/spool.sqlite", str(tmp_path / "spool.sqlite")),
        ("127.0.0.1:8741", f"127.0.0.1:{unused_port()}"),
    ):
        assert old in block
        block = block.replace(old, new)
    acted: list[float] = []
    names = {"temperatures": [70.0, 71.5], "chances": [0.2, 0.5, 0.3], "act": acted.append, "margin": lambda: 12.5}
    with contextlib.chdir(tmp_path):
        exec(compile(block, "docs/serve.md", "exec"), names)
    assert len(acted) == 2 and set(acted) <= {0.5, 1.0, 1.5}
    gate = names["gate"]
    assert gate.fallbacks == 3  # type: ignore[attr-defined]
    gate.close(0.0)  # type: ignore[attr-defined]


def test_the_page_names_what_there_is() -> None:
    for word in (*ROLES, *ACTIONS):
        assert f"`{word}`" in PAGE, word
    assert re.findall(r"^\| `(\w+)` \| (?:nothing|it)", PAGE, flags=re.M) == ["shadow", "approve", "live"]
    assert set(MODES) == {"shadow", "approve", "live"}


def test_every_route_is_on_the_page() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src/aegis/service/routes").glob("*.py"))
    for route in re.findall(r'@router\.(?:get|post)\("(/[a-z/{}]*)"', text):
        last = route.split("/")[-1]
        if last and route not in ("/", "/enter", "/leave", "/pages/{name}"):
            assert last in PAGE, route


def test_files_for_operators_name_commands_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("aegis-gate.service", "Containerfile"):
        text = (ROOT / "deploy" / name).read_text(encoding="utf-8")
        assert typed("serve --help") == 0
        shown = capsys.readouterr().out
        for option in re.findall(r"--(?:problem|store|listen|standby|log-level)\b", text):
            assert option in shown
