"""`aegis completion`: the script with which a shell completes commands, options and files."""

from __future__ import annotations

from dataclasses import dataclass

import click

from aegis.cli import options


@dataclass(frozen=True, slots=True)
class ShellSetup:
    """The line that turns completion on in a shell, and the file to put it into."""

    line: str
    file: str


SHELLS = {
    "bash": ShellSetup('eval "$(aegis completion bash)"', "~/.bashrc"),
    "zsh": ShellSetup('eval "$(aegis completion zsh)"', "~/.zshrc, below compinit"),
    "fish": ShellSetup("aegis completion fish | source", "~/.config/fish/config.fish"),
}


@click.command("completion")
@click.argument("shell", type=click.Choice(list(SHELLS)), required=False)
@options.as_json
def command(shell: str | None, as_json: bool) -> None:
    """Print the script that lets SHELL complete aegis: commands, options and files. Without SHELL: what to put where.

    \b
    Put this line into the file your shell reads at its start, and open a new terminal:
      bash   eval "$(aegis completion bash)"     into ~/.bashrc
      zsh    eval "$(aegis completion zsh)"      into ~/.zshrc, below compinit
      fish   aegis completion fish | source      into ~/.config/fish/config.fish

    \b
    Examples:
      aegis completion
      aegis completion bash
    """
    if as_json:
        from aegis.cli.output import print_json

        setups = {name: {"line": how.line, "file": how.file} for name, how in SHELLS.items()}
        print_json(setups if shell is None else {"shell": shell, **setups[shell], "script": completion_script(shell)})
    elif shell is None:
        for name, how in SHELLS.items():
            click.echo(f"{name:<5} put this line into {how.file}:\n      {how.line}")
    else:
        click.echo(f"# Put this line into {SHELLS[shell].file}, and open a new terminal:\n#   {SHELLS[shell].line}")
        click.echo(completion_script(shell))


def completion_script(shell: str) -> str:
    """Return the script that a shell reads; click writes it, and answers what it asks."""
    from click import shell_completion

    from aegis.cli import app

    kinds = {"bash": shell_completion.BashComplete, "zsh": shell_completion.ZshComplete, "fish": shell_completion.FishComplete}
    return kinds[shell](app, {}, "aegis", "_AEGIS_COMPLETE").source()
