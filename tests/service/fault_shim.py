"""The shim of `fault_shim.c`: loaded into processes whose disk fails, and whose clock is wrong, when a test says so."""

from __future__ import annotations

import errno
import mmap
import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).with_name("fault_shim.c")
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}


def compiler() -> str | None:
    """Return the C compiler of this machine; None if there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build_shim(folder: Path) -> Path:
    """Compile the shim into a folder and return it."""
    shim = folder / "fault_shim.so"
    command = [str(compiler()), "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(shim), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    shim.chmod(0o755)
    return shim


@dataclass(slots=True)
class Control:
    """Says what fails in the processes that were started with its `environment`. paths: beginnings of those that fail."""

    shim: Path
    file: Path
    paths: Sequence[str]
    _place: mmap.mmap = field(init=False)

    def __post_init__(self) -> None:
        self.file.write_bytes(struct.pack("qq", 0, 0))
        self.file.chmod(0o644)
        with self.file.open("r+b") as file:
            self._place = mmap.mmap(file.fileno(), 16)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables with which a process is started."""
        return {"LD_PRELOAD": str(self.shim), "FAULT_CONTROL": str(self.file), "FAULT_PATHS": ":".join(self.paths)}

    def fail(self, code: int) -> None:
        """Let writes fail with an errno; 0: they go through."""
        self._place[:8] = struct.pack("q", code)

    def step_clock(self, ahead: int) -> None:
        """Put the wall clock ahead by so many seconds, or back."""
        self._place[8:] = struct.pack("q", ahead)
