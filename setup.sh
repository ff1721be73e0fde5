#!/usr/bin/env bash
# Creates .venv and installs AEGIS with its development tools, pinned by constraints.txt.
# uv is tried first because it is fast; pip, which always comes with Python, is the fall-back.
set -euo pipefail
cd "$(dirname "$0")"
python=${PYTHON:-python3}
wanted=".[dev]"

command -v "$python" >/dev/null || { echo "setup: $python not found; install Python 3.11 or newer, or set PYTHON=..." >&2; exit 2; }
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  echo "setup: Python 3.11 or newer is needed, found $("$python" --version 2>&1); set PYTHON=..." >&2; exit 2; }
[ -x .venv/bin/python ] || "$python" -m venv .venv || {
  echo "setup: 'python -m venv' failed; on Debian and Ubuntu install the package python3-venv" >&2; exit 2; }

limit() { if command -v timeout >/dev/null; then timeout "$@"; else shift; "$@"; fi; }

with_uv() {
  local uv
  uv=$(command -v uv || true)
  if [ -z "$uv" ]; then
    limit 120 .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv || return 1
    uv=.venv/bin/uv
  fi
  limit 600 "$uv" pip install --quiet --compile-bytecode --python .venv/bin/python -c constraints.txt -e "$wanted"
}

if ! with_uv; then
  echo "setup: uv could not do it, going on with pip" >&2
  limit 1200 .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e "$wanted"
fi
