"""The commands, one module each; every module has a click command called `command`."""
