"""`aegis serve`: the live gate beside a controller, or beside a simulated plant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aegis.cli import options
from aegis.cli.commands.store import store_option
from aegis.cli.options import CompletedWord
from aegis.cli.output import console
from aegis.errors import SettingError

SETTINGS = ("delta", "first", "patience", "floor", "mode")


@click.command("serve")
@click.option("--problem", type=click.Path(path_type=Path), metavar="FILE", help="The problem file, such as problem.yaml.")
@store_option
@click.option("--name", metavar="NAME", help="The name of the gate in its store.  [default: that of the problem file]")
@click.option("--listen", default="127.0.0.1:8741", show_default=True, metavar="HOST:PORT", help="Where it answers.")
@click.option(
    "--mode",
    type=CompletedWord("mode"),
    metavar="NAME",
    help="shadow (the legacy always acts), approve (an operator decides) or live.  [default: approve]",
)
@click.option(
    "--host",
    "learner",
    type=CompletedWord("host"),
    default="ncts",
    show_default=True,
    metavar="NAME",
    help="Who proposes challengers; as in 'aegis handover'.",
)
@click.option("--delta", type=float, help="Probability of any wrong handover, over the life of the gate.  [default: 0.05]")
@click.option("--first", type=int, help="Episodes before challengers are frozen for the first time.")
@click.option("--caps", metavar="W,W", help="How far challengers may differ from the legacy, such as 1.5,2,3 or 2,inf.")
@click.option("--patience", type=float, help="How long to wait for a larger cap: 1.5 is half as long again.")
@click.option("--floor", type=float, help="Share of decisions that a deployed policy leaves to the legacy.")
@click.option("--gate-set", multiple=True, metavar="KEY=VALUE", help="Any setting of the gate (docs/handover.md); repeatable.")
@click.option("--seed", type=click.IntRange(min=0), help="From which decisions are drawn.  [default: drawn once, and kept]")
@click.option("--standby", is_flag=True, help="If another process serves this gate, wait and take over when it ends.")
@click.option(
    "--abandon-after", type=click.FloatRange(min=0, min_open=True), metavar="HOURS", help="Close episodes that never end."
)
@click.option("--allow-host", multiple=True, metavar="NAME", help="A name under which the service may be asked; repeatable.")
@click.option(
    "--rate", type=click.FloatRange(min=1), default=2000.0, show_default=True, help="Requests of one caller per second."
)
@click.option("--tls-cert", type=click.Path(exists=True), metavar="FILE", help="Certificate chain, to serve over TLS.")
@click.option("--tls-key", type=click.Path(exists=True), metavar="FILE", help="Its key.")
@click.option("--log-level", default="warning", show_default=True, help="debug, info or warning; lines of JSON on stderr.")
@click.option("--simulate", metavar="WORLD", help="Drive the service with a simulated plant, through the client.")
@click.option("--legacy", default="uniform", show_default=True, metavar="SPEC", help="The simulated plant's controller.")
@click.option("--episodes", type=click.IntRange(min=1), help="Of the simulated plant; then stop.  [default: until interrupted]")
@options.settings
@options.as_json
def command(
    problem: Path | None,
    store: str,
    name: str | None,
    listen: str,
    learner: str,
    caps: str | None,
    gate_set: tuple[str, ...],
    seed: int | None,
    standby: bool,
    abandon_after: float | None,
    allow_host: tuple[str, ...],
    rate: float,
    tls_cert: str | None,
    tls_key: str | None,
    log_level: str,
    simulate: str | None,
    legacy: str,
    episodes: int | None,
    overrides: tuple[str, ...],
    as_json: bool,
    **typed: Any,
) -> int:
    """Serve a gate: a control system asks for decisions and reports what came of them; levels change hands once certified.

    \b
    Examples:
      aegis serve --problem problem.yaml --mode shadow
      aegis serve --problem problem.yaml --store postgresql://aegis@db/plant --listen 0.0.0.0:8741 --allow-host gate.plant.example
      aegis serve --simulate additive --mode live --episodes 400
    """
    from aegis.cli.options import require_service

    require_service()
    if (problem is None) == (simulate is None):
        raise SettingError(
            "give a problem file (--problem), or a world to simulate (--simulate), not both; to look around: "
            "`aegis serve --simulate additive --mode live`"
        )
    if simulate is None and (episodes is not None or overrides):
        raise SettingError("--episodes and --set belong to --simulate")
    from aegis.cli.gate_server import log_json_lines, make_service, run_beside_server, start_service
    from aegis.cli.simulated_controller import drive_gate, make_simulated_plant

    log_json_lines(log_level)
    where = address_of(listen)
    plant = None if simulate is None else make_simulated_plant(simulate, legacy, options.parse_settings(overrides))
    given = {word: value for word, value in typed.items() if value is not None}
    if caps is not None:
        from aegis.cli.config import parse_caps

        given["caps"] = parse_caps(caps)
    given |= options.parse_settings(gate_set, "--gate-set")
    found = plant.problem if plant is not None else _problem(problem)
    gate = name or (simulate if problem is None else problem.stem) or "gate"
    hosts = () if allow_host == ("*",) else (*dict.fromkeys([*allow_host, where[0], "127.0.0.1", "localhost", "::1"]),)
    service, server = make_service(
        found, store, gate, given, seed, learner, where, hosts, rate, standby, abandon_after, tls_cert, tls_key
    )
    start_service(service)
    shown = f"http{'s' if tls_cert else ''}://{where[0] if where[0] != '0.0.0.0' else 'localhost'}:{where[1]}"
    console(to_stderr=True).print(f"gate '{gate}' at {shown} (store {service.live.database.shown}); stop it with Ctrl-C")
    if plant is None:
        server.run()
        return 0
    return run_beside_server(server, lambda: drive_gate(plant, shown, service, episodes, as_json))


def address_of(listen: str) -> tuple[str, int]:
    """Return host and port; SettingError if it is none."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) < 65536:
        raise SettingError(f"--listen is HOST:PORT, such as 127.0.0.1:8741, found {listen!r}")
    return host.strip("[]"), int(port)


def _problem(path: Path | None) -> Any:
    from aegis.problem import load_problem

    return load_problem(str(path))
