"""AEGIS: certified handover of control."""

from aegis.version import __version__

__all__ = ["__version__"]
