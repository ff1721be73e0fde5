"""docs/serve.md does what it says: its commands run, its tables are those of the code."""

from __future__ import annotations

import contextlib
import re
import shlex
import socket
from pathlib import Path

import pytest

from aegis.cli import main
from aegis.handover.gate import ACTIONS
from aegis.handover.settings import MODES
from aegis.service.tokens import ROLES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    aegis (.*)$", PAGE, flags=re.M)
SIMULATED = next(line for line in COMMANDS if "--simulate" in line)


def typed(line: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(line))
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the store of the simulated plant."""
    folder = tmp_path_factory.mktemp("serve")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with contextlib.chdir(folder):
        assert typed(f"{SIMULATED} --listen 127.0.0.1:{port}") == 0
    return folder


def test_the_simulated_plant_is_counted(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.chdir(place):
        assert typed("store verify --store trial.sqlite --json") == 0
    found = re.findall(r'"records": (\d+)', capsys.readouterr().out)
    assert len(found) == 1 and int(found[0]) > 40 * 6


def test_the_commands_of_the_page_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for line in COMMANDS if line.startswith(("token", "store"))]
    assert len(lines) == 9
    with contextlib.chdir(place):
        for line in lines:
            assert typed(line.replace("gate.sqlite", "trial.sqlite")) == 0, line
    out = capsys.readouterr().out
    assert "the chain is whole" in out and "every chain is whole" in out and "40 episodes in export" in out
    assert "reactor-7: controller" in out
    assert (place / "export" / "log.parquet").exists()


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
