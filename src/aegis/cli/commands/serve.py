"""`aegis serve`: the live gate beside a controller, or beside a simulated plant."""

from __future__ import annotations

import contextlib
import ipaddress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from aegis.cli import options
from aegis.cli.commands.store import key_option, store_option
from aegis.cli.output import console
from aegis.errors import SettingError


@click.command("serve")
@options.optional_problem
@store_option
@click.option("--name", metavar="NAME", help="The name of the gate in its store.  [default: that of the problem file]")
@click.option("--listen", default="127.0.0.1:8741", show_default=True, metavar="HOST:PORT", help="Where it answers.")
@options.word_option(
    "--mode", "mode", "shadow (the legacy always acts), approve (an operator decides) or live.  [default: approve]"
)
@options.word_option(
    *("--host learner", "host", "Who proposes challengers; as in 'aegis handover'."), default="ncts", show_default=True
)
@options.gate_limits
@options.gate_settings
@click.option("--seed", type=click.IntRange(min=0), help="From which decisions are drawn.  [default: drawn once, and kept]")
@click.option("--standby", is_flag=True, help="If another process serves this gate, wait and take over when it ends.")
@click.option(
    "--abandon-after",
    "abandon_hours",
    type=click.FloatRange(min=0, min_open=True),
    metavar="HOURS",
    help="Close episodes that never end.",
)
@click.option(
    "--snapshot-every",
    type=click.IntRange(min=1000),
    default=20_000,
    show_default=True,
    metavar="RECORDS",
    help="Store what the gate knows after so many records, so that a restart reads only those after it.",
)
@options.repeated_option("--allow-host", "NAME", "A name under which the service may be asked; repeatable.")
@click.option(
    "--rate", type=click.FloatRange(min=1), default=2000.0, show_default=True, help="Requests of one caller per second."
)
@options.repeated_option(
    "--trust-proxy", "ADDRESS", "A proxy whose X-Forwarded-For and X-Forwarded-Proto are believed; repeatable."
)
@click.option("--tls-cert", type=click.Path(exists=True), metavar="FILE", help="Certificate chain, to serve over TLS.")
@click.option("--tls-key", type=click.Path(exists=True), metavar="FILE", help="Its key.")
@key_option("Signs the journal; made by 'aegis store key'.")
@click.option(
    "--tls-client-ca",
    type=click.Path(exists=True),
    metavar="FILE",
    help="Refuse callers without a certificate that these authorities signed.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning"]),
    default="warning",
    show_default=True,
    help="From which level on lines of JSON are written on stderr.",
)
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
    allow_host: tuple[str, ...],
    trust_proxy: tuple[str, ...],
    log_level: str,
    simulate: str | None,
    legacy: str,
    episodes: int | None,
    overrides: tuple[str, ...],
    as_json: bool,
    **typed: Any,
) -> int:
    """Serve a gate: a control system asks for decisions and reports their outcomes; levels change hands once certified.

    \b
    Examples:
      aegis serve --problem problem.yaml --mode shadow
      aegis serve --problem problem.yaml --store postgresql://aegis@db/plant --listen 0.0.0.0:8741 --allow-host gate.plant.example
      aegis serve --simulate additive --mode live --episodes 400
    """
    options.require_extra("service", "the live gate")
    if (problem is None) == (simulate is None):
        raise SettingError(
            "give a problem file (--problem), or a world to simulate (--simulate), not both; to look around: "
            "`aegis serve --simulate additive --mode live`"
        )
    if simulate is None and (episodes is not None or overrides):
        raise SettingError("--episodes and --set belong to --simulate")
    from aegis.cli.gate_server import ServerOptions, check_address, log_json_lines, make_service, run_beside_server
    from aegis.cli.simulated_controller import drive_gate, make_simulated_plant
    from aegis.problem import load_problem

    log_json_lines(log_level)
    host, port = parse_address(listen)
    plant = None if simulate is None else make_simulated_plant(simulate, legacy, options.parse_settings(overrides))
    typed["caps"] = None if caps is None else list(options.parse_caps(caps))
    settings = {key: value for key in options.GATE_KEYS if (value := typed.pop(key)) is not None}
    settings |= options.parse_settings(gate_set, "--gate-set")
    gate = name or (simulate if problem is None else problem.stem) or "gate"
    allowed = allow_host if allow_host == ("*",) else map(parse_host, allow_host)
    names = (*dict.fromkeys([*allowed, host, "127.0.0.1", "localhost", "::1"]),)
    served = ServerOptions(host=host, port=port, names=names, trusted=trust_proxy, **typed)
    stated = plant.problem if plant is not None else load_problem(str(problem))
    check_address(host, port)  # before the gate is opened
    service, server = make_service(stated, store, gate, settings, seed, learner, served)
    service.start()  # before its web server, so that why it cannot start is an error like any other
    url = f"http{'s' if served.tls_cert else ''}://{host if host != '0.0.0.0' else 'localhost'}:{port}"
    console(to_stderr=True).print(f"gate '{gate}' at {url} (store {service.live.database.shown}); stop it with Ctrl-C")
    if plant is None:
        server.run()
        if service.demoted:
            raise SettingError(f"another process has taken over gate '{gate}': start this one with --standby to wait beside it")
        return 0
    return run_beside_server(server, lambda: drive_gate(plant, url, service, episodes, as_json))


def parse_host(name: str) -> str:
    """Return a name under which the gate may be asked; SettingError if it could never match one."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(name.strip("[]")))
    try:
        host = urlsplit(name if "://" in name else f"//{name}").hostname or ""
    except ValueError:
        host = ""
    if not host or host != name.lower() or host == "*" or any(sign.isspace() for sign in host):
        example = "gate.plant.example" if host in ("", "*") else "".join(host.split())
        raise SettingError(
            f"--allow-host {name}: expected a name alone, without http:// and without a port, such as --allow-host {example}; "
            "'*' alone allows every name"
        )
    return name


def parse_address(listen: str) -> tuple[str, int]:
    """Return host and port; SettingError if it is none."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) < 65536:
        raise SettingError(f"--listen is HOST:PORT, such as 127.0.0.1:8741, found {listen!r}")
    return host.strip("[]"), int(port)
