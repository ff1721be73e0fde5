"""A TCP proxy that can be silent, refuse, reset or delay: the way to a server, as networks are."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable

Address = tuple[str, int]


class FaultProxy:
    """Forwards connections to a server, or does to them what a test says.

    silent: takes everything, and passes it on when it is no longer silent. refusing: ends every connection at once. delay:
    seconds that each piece takes.
    target: where it leads to, or a function that says so anew for every connection.
    """

    def __init__(self, target: Address | Callable[[], Address], port: int = 0) -> None:
        self.silent, self.refusing, self.delay = threading.Event(), threading.Event(), 0.0
        self._target = target if callable(target) else lambda: target
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self._wires: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(self) -> None:
        """Reset every connection that there is."""
        with self._lock:
            wires, self._wires = self._wires, set()
        for wire in wires:
            with contextlib.suppress(OSError):
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            _end(wire)

    def close(self) -> None:
        """End everything."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            self._closed = True  # a connection that is being made is ended at once
        self.reset()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._keep(near)
                if self.refusing.is_set():
                    self._drop(near)
                else:
                    threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def _connect(self, near: socket.socket) -> None:
        while self.silent.is_set() and near in self._wires:
            time.sleep(0.02)
        try:
            far = socket.create_connection(self._target(), 5.0)
        except OSError:
            self._drop(near)
            return
        far.settimeout(None)
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._keep(far)
        other = threading.Thread(target=self._forward, args=(near, far), daemon=True)
        other.start()
        self._forward(far, near)
        other.join()
        self._drop(near)
        self._drop(far)

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                data = one.recv(65536)
                if self.delay:
                    time.sleep(self.delay * random.random())
                while self.silent.is_set() and one in self._wires:  # as after a partition, it may arrive much later
                    time.sleep(0.02)
                if not data:
                    break
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    def _keep(self, wire: socket.socket) -> None:
        with self._lock:
            self._wires.add(wire)
            closed = self._closed
        if closed:
            self._drop(wire)

    def _drop(self, wire: socket.socket) -> None:
        with self._lock:
            self._wires.discard(wire)
        _end(wire)


def _end(wire: socket.socket) -> None:
    with contextlib.suppress(OSError):
        wire.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        wire.close()
