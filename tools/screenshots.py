"""The pictures of docs/commands.md and the README: their own commands are run, and what comes out is drawn.

    python tools/screenshots.py            # both: docs/figures/terminal.svg and docs/figures/report.png
    python tools/screenshots.py terminal   # what the commands of docs/commands.md print, without a browser
    python tools/screenshots.py report     # the report that the example of the README writes

The report needs Playwright (among the `dev` extras) and Chromium (`apt-get install chromium`, or AEGIS_CHROMIUM=/path).
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FIGURES = ROOT / "docs" / "figures"
SHOWN = ("audit", "certify", "verify")  # the commands in the picture; those between are run as well
COLUMNS = 120
WIDTH, ROWS = 1000, 1  # of the page, and rows of its table of levels after which it is cut off
ARGUMENTS = ("--no-sandbox", "--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking")

# Drawn without fonts from elsewhere: a picture in a README may load nothing.
FRAME = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img" aria-label="aegis in a terminal">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px; }}
.{unique_id}-title {{ font-family: sans-serif; font-size: 18px; font-weight: bold; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""


def main() -> None:
    """Run the commands of each page in an empty folder and draw the result."""
    wanted = sys.argv[1:] or ["terminal", "report"]
    if "terminal" in wanted:
        with tempfile.TemporaryDirectory() as name:
            (FIGURES / "terminal.svg").write_text(drawn(run_all(commands("docs/commands.md"), Path(name))), encoding="utf-8")
    if "report" in wanted:
        with tempfile.TemporaryDirectory() as name:
            run_all(commands("README.md"), Path(name))
            photograph(Path(name) / "report.html", FIGURES / "report.png")


def commands(page: str) -> list[str]:
    """Return the commands of a page from its log to a verified certificate."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [re.sub(r" +", " ", line) for line in re.findall(r"^(?:    )?(aegis .*)$", text, flags=re.M)]
    names = [line.split()[1] for line in found]
    return found[: names.index("verify") + 1]


def run_all(lines: list[str], folder: Path) -> dict[str, str]:
    """Run commands one after the other in a folder; return what each printed on stdout, with colours."""
    surroundings = {
        **os.environ,
        "AEGIS_LEDGER": str(folder / "ledger"),
        "FORCE_COLOR": "1",
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm-256color",
    }
    said = {}
    for line in lines:
        words = [sys.executable, "-m", "aegis", *shlex.split(line)[1:]]
        done = subprocess.run(words, cwd=folder, env=surroundings, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"`{line}` ended with {done.returncode}:\n{done.stderr}")
        said[line] = done.stdout
    return said


def drawn(said: dict[str, str]) -> str:
    """Return the terminal as SVG: the commands that are shown, and all that they printed."""
    from rich.console import Console
    from rich.text import Text

    screen = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, highlight=False)
    for line, output in said.items():
        if line.split()[1] in SHOWN:
            screen.print(Text.assemble(("$ ", "bold"), (line, "bold")))
            screen.print(Text.from_ansi(output.rstrip("\n")))
            screen.print()
    return screen.export_svg(title="from a log to a verdict", code_format=FRAME, unique_id="aegis")


def photograph(page: Path, picture: Path) -> None:
    """Write a picture of the beginning of a report, down to the first rows of its table of levels."""
    from playwright.sync_api import sync_playwright

    browser_path = os.environ.get("AEGIS_CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_path, args=list(ARGUMENTS))
        sheet = browser.new_page(viewport={"width": WIDTH, "height": 900})
        sheet.goto(page.as_uri())
        last = sheet.locator("tbody tr").nth(ROWS - 1).bounding_box()
        if last is None:
            raise SystemExit(f"{page} has no table of levels with {ROWS} rows")
        height = round(last["y"] + last["height"])
        sheet.screenshot(path=picture, full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
        browser.close()


if __name__ == "__main__":
    main()
