"""What is installed beside the package: the unit runs a command that exists, with the privileges it needs and no others."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).parents[1]
UNIT = ROOT / "deploy" / "aegis-gate.service"
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
HARDENED = {
    **{"NoNewPrivileges": "true", "CapabilityBoundingSet": "", "AmbientCapabilities": "", "ProtectSystem": "strict"},
    **{"ProtectHome": "true", "ProtectProc": "invisible", "ProcSubset": "pid", "PrivateTmp": "true", "PrivateDevices": "true"},
    **{"ProtectKernelTunables": "true", "ProtectKernelModules": "true", "ProtectKernelLogs": "true"},
    **{"ProtectControlGroups": "true", "ProtectClock": "true", "ProtectHostname": "true", "RestrictNamespaces": "true"},
    **{"RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX", "RestrictRealtime": "true", "RestrictSUIDSGID": "true"},
    **{"RemoveIPC": "true", "LockPersonality": "true", "SystemCallArchitectures": "native", "UMask": "0077"},
    **{"SystemCallFilter": "@system-service", "StateDirectoryMode": "0700", "LimitNOFILE": "65536", "User": "aegis"},
}


def directives(text: str) -> dict[str, str]:
    """The directives of a unit; none of those here is set twice."""
    lines = [line for line in text.splitlines() if "=" in line and not line.startswith("#")]
    pairs = [(name, value) for name, _, value in (line.partition("=") for line in lines)]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


def with_secrets(text: str) -> str:
    """The unit with its examples of secrets taken up, as its comments say."""
    options = re.findall(r"add `([^`]+)` to ExecStart", text)
    assert len(options) == 2
    text = re.sub(r"^(ExecStart=.*)$", lambda line: " ".join([line[1], *options]), text, flags=re.M)
    return re.sub(r"^#(LoadCredential|Runtime\w+|ExecStartPre)=", r"\1=", text, flags=re.M)


def check_options(command: list[str]) -> None:
    """Parse a command as `aegis serve` does, with its options as `aegis serve --help` lists them."""
    from aegis.cli.commands.serve import command as serve

    help_text = serve.get_help(click.Context(serve, info_name="serve"))
    for option in [word for word in command if word.startswith("--")]:
        assert re.search(rf"{option}\b", help_text), option
    _, left, _ = serve.make_parser(click.Context(serve)).parse_args(list(command))
    assert left == []


def test_the_unit_leaves_the_service_no_privilege() -> None:
    unit = directives(UNIT.read_text(encoding="utf-8"))
    assert {name: unit.get(name) for name in HARDENED} == HARDENED
    assert unit["WorkingDirectory"] == f"/var/lib/{unit['StateDirectory']}"


@pytest.mark.parametrize("secrets", [False, True])
def test_the_unit_runs_a_command_that_exists(secrets: bool) -> None:
    text = UNIT.read_text(encoding="utf-8")
    program, command, *options = shlex.split(re.findall(r"^ExecStart=(.*)$", with_secrets(text) if secrets else text, re.M)[0])
    assert (Path(program).name, command) == ("aegis", "serve")
    check_options(options)
    assert ("--journal-key" in options) == ("--tls-key" in options) == secrets
    assert options[options.index("--store") + 1].startswith("/var/lib/aegis/")  # the one folder it may write to


def test_the_check_of_options_notices_one_that_is_not_there() -> None:
    with pytest.raises(AssertionError):
        check_options(["--no-such-option", "1"])


@pytest.mark.parametrize("secrets", [False, True])
def test_systemd_accepts_the_unit_and_finds_little_exposed(secrets: bool, tmp_path: Path) -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("there is no systemd-analyze")
    version = re.match(
        r"systemd (\d+)", subprocess.run([systemd, "--version"], capture_output=True, text=True, check=True).stdout
    )
    if version is None or int(version[1]) < 250:
        pytest.skip("systemd-analyze is older than 250: it cannot check a file")
    text = UNIT.read_text(encoding="utf-8")
    text = (with_secrets(text) if secrets else text).replace("/opt/aegis/bin/aegis", "/bin/true")  # a program that is there
    path = tmp_path / UNIT.name
    path.write_text(text, encoding="utf-8")
    verified = subprocess.run([systemd, "verify", path], capture_output=True, text=True, check=False)
    assert verified.returncode == 0 and UNIT.name not in verified.stderr, verified.stderr
    exposed = subprocess.run(
        [systemd, "security", "--offline=true", "--no-pager", path], capture_output=True, text=True, check=False
    )
    level = re.search(r"exposure level for \S+: ([\d.]+)", exposed.stdout)
    assert level is not None and float(level[1]) <= 2.5, exposed.stdout


def stages() -> list[list[str]]:
    """The instructions of the Containerfile: those before the first FROM, then those of each stage."""
    lines = [line for line in CONTAINER.splitlines() if line.strip() and not line.startswith("#")]
    parts: list[list[str]] = [[]]
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        parts.extend([[]] if line.startswith("FROM ") else [])
        parts[-1].append(line)
    return parts


def test_the_base_image_is_named_by_its_digest_and_a_tag_is_refused() -> None:
    before, build, last = stages()
    assert before == ["ARG PYTHON_IMAGE"]  # without a default: no image is taken that was not looked up
    assert (build[0], last[0]) == ("FROM ${PYTHON_IMAGE} AS build", "FROM ${PYTHON_IMAGE}")
    assert build[1] == "ARG PYTHON_IMAGE" and build[2].startswith("RUN ")
    for image, accepted in {
        f"python@sha256:{'0' * 64}": True,
        f"registry.example/python:3.12-slim@sha256:{'a1' * 32}": True,
        **dict.fromkeys(["", "python:3.12-slim", "python@sha256:", f"python@sha256:{'0' * 63}", f"a@sha256:{'0' * 64}:b"], False),
    }.items():
        done = subprocess.run(["sh", "-c", build[2][4:]], env={"PYTHON_IMAGE": image, "PATH": "/usr/bin:/bin"}, check=False)
        assert (done.returncode == 0) == accepted, image


def test_the_container_runs_the_gate_without_privilege() -> None:
    _, build, last = stages()
    assert "COPY --from=build /opt/aegis /opt/aegis" in last and not any("pip install" in line for line in last)
    assert any(".[service,postgres]" in line and "-c constraints.txt" in line for line in build)
    users = [line for line in last if line.startswith("USER ")]
    assert users == ["USER 10001"] and any("--uid 10001" in line for line in last)
    assert [line for line in last if line.startswith("RUN ")] == [
        line for line in last[: last.index(users[0])] if line[:4] == "RUN "
    ]
    assert any(line.startswith("HEALTHCHECK ") and "/v1/health" in line for line in last)
    entry, command = (json.loads(line.split(" ", 1)[1]) for line in last[-2:])
    assert entry == ["aegis", "serve"]
    check_options(command)
    for flag in ("--read-only", "--tmpfs /tmp", "--cap-drop=all", "--security-opt=no-new-privileges", "--format docker"):
        assert flag in CONTAINER, flag
    for copied in [name for line in build if line.startswith("COPY ") for name in line.split()[1:-1]]:
        assert (ROOT / copied).exists(), copied


def test_the_makefile_writes_a_parts_list_of_the_gate() -> None:
    target = re.search(r"^sbom:\n(\t.*\n)+", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    assert target is not None
    for word in ("[service,postgres]", "-c constraints.txt", "cyclonedx-py environment", "build/sbom.cdx.json"):
        assert word in target[0], word
    assert "build/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


@pytest.mark.soak
def test_the_parts_list_names_what_the_gate_runs_on() -> None:
    done = subprocess.run(["make", "sbom"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0 and re.search("No matching distribution|Could not find a version|connection", done.stderr, re.I):
        pytest.skip("packages cannot be downloaded here")
    assert done.returncode == 0, done.stderr
    parts = json.loads((ROOT / "build" / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert parts["bomFormat"] == "CycloneDX"
    names = {part["name"].lower(): part["version"] for part in parts["components"]}
    assert {"numpy", "pydantic", "fastapi", "psycopg"} <= set(names) and "pytest" not in names
    pinned = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").split())
    assert names["numpy"] == pinned["numpy"]
    assert str(ROOT) not in json.dumps(parts)  # no path of the machine that wrote it
