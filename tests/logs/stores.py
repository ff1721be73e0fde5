"""Object stores on this machine: a server that speaks S3, a client to fill it, and servers that fail in one way each."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow.fs
import pytest

KEY, SECRET = "AKIAlongkeyofsomebody", "s3cr3t/With+Slashes"
# moto may live in an environment of its own; then this names its Python.
ELSEWHERE = "AEGIS_TEST_MOTO_PYTHON"


@dataclass(frozen=True)
class Store:
    """A server that speaks S3, and buckets in it."""

    endpoint: str

    @property
    def files(self) -> Any:
        """A client that may do everything."""
        return pyarrow.fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            endpoint_override=self.endpoint,
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
            background_writes=False,
        )

    def put(self, path: str, content: bytes) -> str:
        """Write an object, and its bucket if need be; return its address."""
        files = self.files
        files.create_dir(path.partition("/")[0])
        with files.open_output_stream(path, compression=None) as out:
            out.write(content)
        return f"s3://{path}"


def moto_python() -> str:
    """Return a Python that has moto's server; skip the test if there is none."""
    if all(importlib.util.find_spec(name) for name in ("moto", "flask", "flask_cors")):
        return sys.executable
    if os.environ.get(ELSEWHERE):
        return os.environ[ELSEWHERE]
    pytest.skip(f"moto[server] is not installed, and {ELSEWHERE} names no Python that has it")


@contextlib.contextmanager
def moto() -> Iterator[Store]:
    """Start a server on a free port, and end it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [moto_python(), "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with tempfile.TemporaryFile() as said, subprocess.Popen(command, stdout=said, stderr=said) as server:
        try:
            _wait(port, server)
            yield Store(f"127.0.0.1:{port}")
        finally:
            server.terminate()


def _wait(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5):
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError("moto's server did not start")


@contextlib.contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    """Yield the endpoint of a server that answers every request for an object in the same way."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    with _served(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as endpoint:
        yield endpoint


@contextlib.contextmanager
def silent() -> Iterator[str]:
    """Yield the endpoint of a server that takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@contextlib.contextmanager
def nobody() -> Iterator[str]:
    """Yield an endpoint at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{probe.getsockname()[1]}"


@contextlib.contextmanager
def _served(server: socketserver.TCPServer) -> Iterator[str]:
    with server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
