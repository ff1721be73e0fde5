"""Memory that a process has freed and still holds."""

from __future__ import annotations

import contextlib
import ctypes
import sys


def give_back() -> None:
    """Give freed memory back to the system, where the C library can: for a process that waits while others need it."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)
