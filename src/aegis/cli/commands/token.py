"""`aegis token`: who may ask a live gate for decisions, read it, or operate it."""

from __future__ import annotations

import click

from aegis.cli import options
from aegis.cli.commands.store import open_store, store_option
from aegis.cli.output import console, print_json


@click.group("token")
def command() -> None:
    """Make, list and revoke the tokens of a live gate.

    \b
    Examples:
      aegis token make reactor-7 --role controller --store gate.sqlite
      aegis token list --store gate.sqlite --json
    """


@command.command("make")
@click.argument("name")
@click.option("--role", required=True, metavar="ROLE", help="controller (asks and reports), viewer (reads) or operator.")
@store_option
@options.as_json
def make_token_command(name: str, role: str, store: str, as_json: bool) -> int:
    """Make a token and show it, once: only its hash is kept."""
    database = open_store(store, check=False)
    new = not database.file.exists() if database.file is not None else database.version() is None
    database.upgrade()
    from aegis.service import make_token

    if new:  # a path that was mistyped makes one, too
        console(to_stderr=True).print(f"made a new store {database.file or database.shown}", soft_wrap=True)
    secret = make_token(database, name, role)
    if as_json:
        print_json({"name": name, "role": role, "token": secret})
    else:
        click.echo(secret)
        console(to_stderr=True).print(f"The token of '{name}' ({role}). It is not shown again.")
    return 0


@command.command("list")
@store_option
@options.as_json
def list_tokens_command(store: str, as_json: bool) -> int:
    """List all tokens, without their secrets."""
    database = open_store(store)
    from aegis.service import list_tokens

    tokens = list_tokens(database)
    if as_json:
        print_json({"tokens": [{"name": t.name, "role": t.role, "made": t.made, "revoked": t.revoked} for t in tokens]})
        return 0
    for token in tokens:
        state = "" if token.revoked is None else f", revoked {token.revoked}"
        console().print(f"{token.name}: {token.role}, made {token.made}{state}")
    if not tokens:
        console().print("no tokens: the gate listens on this machine only, and lets everybody on it do everything")
    return 0


@command.command("revoke")
@click.argument("name")
@store_option
@options.as_json
def revoke_token_command(name: str, store: str, as_json: bool) -> int:
    """Make a token worthless, within seconds."""
    database = open_store(store)
    from aegis.service import revoke_token

    revoke_token(database, name)
    if as_json:
        print_json({"revoked": name})
    else:
        console().print(f"the token '{name}' is revoked")
    return 0
