"""The faults of a campaign, each a function of a cluster and a stream of randomness, and how often each is drawn."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import time
from collections.abc import Callable

from fault_cluster import Cluster, GateProcess, PlantProcess
from fault_proxy import FaultProxy
from fault_shim import ERRORS

Fault = Callable[[Cluster, random.Random], None]
EXPIRES = 10.0  # seconds after which PostgreSQL gives the lock of a silent writer to another one
HOUR = 3600


def _writer(cluster: Cluster) -> GateProcess:
    return cluster.writer() or cluster.gates[0]


# ---- processes ---------------------------------------------------------------------------------------------------------------


def kill_writer(cluster: Cluster, chance: random.Random) -> None:
    """Kill the writer; the other one takes over."""
    _end(_writer(cluster), chance)


def kill_standby(cluster: Cluster, chance: random.Random) -> None:
    """Kill the service that stands by."""
    _end(cluster.standby(), chance)


def _end(gate: GateProcess, chance: random.Random) -> None:
    gate.end()
    time.sleep(chance.choice([0.0, 0.5]))
    gate.start()


def kill_both(cluster: Cluster, chance: random.Random) -> None:
    """Kill both services, as a power cut does."""
    for gate in cluster.gates:
        gate.end()
    for gate in chance.sample(cluster.gates, 2):
        gate.start()


def end_writer(cluster: Cluster, chance: random.Random) -> None:
    """Let the writer end in peace."""
    gate = _writer(cluster)
    if not gate.end(signal.SIGTERM):
        cluster.wrong.append(f"{gate.process} did not end on SIGTERM")
    gate.start()


def kill_trainer(cluster: Cluster, chance: random.Random) -> None:
    """Kill the process that learns."""
    end = time.monotonic() + 5.0
    while not _writer(cluster).kill_trainer() and time.monotonic() < end:
        time.sleep(0.1)


def stop_writer(cluster: Cluster, chance: random.Random) -> None:
    """Let the writer sleep for a moment."""
    _sleep(_writer(cluster), chance.uniform(0.1, 3.0))


def stop_writer_long(cluster: Cluster, chance: random.Random) -> None:
    """Let the writer sleep for so long that its lock in PostgreSQL expires. When it wakes it must not write."""
    _sleep(_writer(cluster), EXPIRES + chance.uniform(1.0, 5.0))


def stop_standby(cluster: Cluster, chance: random.Random) -> None:
    """Let the service that stands by sleep."""
    _sleep(cluster.standby(), chance.uniform(0.1, 3.0))


def _sleep(gate: GateProcess, seconds: float) -> None:
    gate.stop()
    time.sleep(seconds)
    gate.wake()


# ---- networks ----------------------------------------------------------------------------------------------------------------


def _silence(proxy: FaultProxy, seconds: float, chance: random.Random) -> None:
    """Pass on nothing for a while; then everything, late, or nothing of it."""
    proxy.silent.set()
    time.sleep(seconds)
    if chance.random() < 0.5:
        proxy.reset()
    proxy.silent.clear()


def _refuse(proxy: FaultProxy, seconds: float) -> None:
    proxy.refusing.set()
    proxy.reset()
    time.sleep(seconds)
    proxy.refusing.clear()


def _delay(proxy: FaultProxy, chance: random.Random) -> None:
    proxy.delay = chance.uniform(0.02, 0.3)
    time.sleep(chance.uniform(0.5, 3.0))
    proxy.delay = 0.0


def _way_to_gate(cluster: Cluster, chance: random.Random) -> FaultProxy:
    return chance.choice([cluster.balancer, _writer(cluster).front])


def callers_silent(cluster: Cluster, chance: random.Random) -> None:
    """Cut plants off from the gate without a word."""
    _silence(_way_to_gate(cluster, chance), chance.uniform(0.2, 4.0), chance)


def callers_reset(cluster: Cluster, chance: random.Random) -> None:
    """Reset the connections of plants, and refuse new ones for a while."""
    _refuse(_way_to_gate(cluster, chance), chance.choice([0.0, 0.0, 1.0]))


def callers_delayed(cluster: Cluster, chance: random.Random) -> None:
    """Make the way from plants to the gate slow."""
    _delay(_way_to_gate(cluster, chance), chance)


def _way_to_store(cluster: Cluster) -> FaultProxy:
    proxy = _writer(cluster).store_proxy
    if proxy is None:
        raise ValueError("a file has no way to it")
    return proxy


def store_silent(cluster: Cluster, chance: random.Random) -> None:
    """Cut the writer off from PostgreSQL without a word, for a moment."""
    _silence(_way_to_store(cluster), chance.uniform(0.2, 5.0), chance)


def store_silent_long(cluster: Cluster, chance: random.Random) -> None:
    """Cut the writer off for so long that the other one takes over."""
    _silence(_way_to_store(cluster), EXPIRES + chance.uniform(1.0, 5.0), chance)


def store_reset(cluster: Cluster, chance: random.Random) -> None:
    """Reset the connections of the writer to PostgreSQL, and refuse new ones for a while."""
    _refuse(_way_to_store(cluster), chance.choice([0.0, 0.0, 0.5, 3.0]))


def store_delayed(cluster: Cluster, chance: random.Random) -> None:
    """Make the way to PostgreSQL slow."""
    _delay(_way_to_store(cluster), chance)


def database_crash(cluster: Cluster, chance: random.Random) -> None:
    """End PostgreSQL without a shutdown, and start it again."""
    if cluster.server is not None:
        cluster.server.crash()


# ---- disks and clocks --------------------------------------------------------------------------------------------------------


def store_disk(cluster: Cluster, chance: random.Random) -> None:
    """Let writes to the store's files fail, with EIO or ENOSPC."""
    control = cluster.server_control or _writer(cluster).control
    control.fail(ERRORS[chance.choice(list(ERRORS))])
    time.sleep(chance.uniform(0.1, 3.0))
    control.fail(0)
    if cluster.server is not None:
        time.sleep(0.2)
        if cluster.server.ended:  # it panics where it cannot write its own log
            cluster.server.crash()


def clock_step(cluster: Cluster, chance: random.Random) -> None:
    """Put the wall clock of a service forward or back by hours; it may stay so."""
    gate = chance.choice(cluster.gates)
    for ahead in (chance.randint(-8 * HOUR, 8 * HOUR), chance.choice([0, chance.randint(-HOUR, HOUR)])):
        cluster.record("clock", process=gate.process, ahead=ahead)
        gate.control.step_clock(ahead)
        time.sleep(chance.uniform(0.1, 1.0))


# ---- plants ------------------------------------------------------------------------------------------------------------------


def _plant(cluster: Cluster, chance: random.Random) -> PlantProcess:
    return chance.choice(cluster.plants)


def plant_kill(cluster: Cluster, chance: random.Random) -> None:
    """Kill a plant and start it again on the same spool."""
    _plant(cluster, chance).kill()


def spool_locked(cluster: Cluster, chance: random.Random) -> None:
    """Let another process hold a lock on a spool."""
    plant = _plant(cluster, chance)
    plant.troubled = True
    other = sqlite3.connect(plant.folder / "spool", isolation_level=None, timeout=2.0)
    with contextlib.closing(other), contextlib.suppress(sqlite3.Error):
        other.execute("BEGIN EXCLUSIVE")
        time.sleep(chance.uniform(0.2, 7.0))
        other.execute("COMMIT")
    _perhaps_kill(plant, chance)


def spool_disk(cluster: Cluster, chance: random.Random) -> None:
    """Let writes to a spool fail, with EIO or ENOSPC."""
    plant = _plant(cluster, chance)
    plant.troubled = True
    plant.control.fail(ERRORS[chance.choice(list(ERRORS))])
    time.sleep(chance.uniform(0.1, 3.0))
    _perhaps_kill(plant, chance)
    plant.control.fail(0)


def _perhaps_kill(plant: PlantProcess, chance: random.Random) -> None:
    """Kill the plant in a third of the cases: what is in memory only is lost then, and is known to be."""
    if chance.random() < 0.33:
        plant.kill()


def spool_damaged(cluster: Cluster, chance: random.Random) -> None:
    """Write over the middle of a spool, and kill the plant a moment later."""
    plant = _plant(cluster, chance)
    path = chance.choice([plant.folder / "spool", plant.folder / "spool", plant.folder / "spool-wal"])
    plant.record("lost", plant=plant.name)
    with contextlib.suppress(OSError), path.open("r+b") as file:
        size = os.fstat(file.fileno()).st_size
        if size > 512:
            file.seek(chance.randint(100, size // 2))
            file.write(b"\xff" * chance.randint(100, size // 2))
    time.sleep(chance.uniform(0.1, 2.0))
    plant.kill(lost=True)


def spool_deleted(cluster: Cluster, chance: random.Random) -> None:
    """Delete a spool below a plant, and kill the plant a moment later."""
    plant = _plant(cluster, chance)
    plant.record("lost", plant=plant.name)
    for end in ("", "-wal", "-shm"):
        with contextlib.suppress(OSError):
            os.unlink(plant.folder / f"spool{end}")
    time.sleep(chance.uniform(0.1, 1.0))
    plant.kill(lost=True)


# ---- how often ---------------------------------------------------------------------------------------------------------------

EVERYWHERE: dict[str, tuple[Fault, float]] = {
    "writer killed": (kill_writer, 4),
    "standby killed": (kill_standby, 1),
    "both killed": (kill_both, 1),
    "writer ended (SIGTERM)": (end_writer, 2),
    "trainer killed": (kill_trainer, 2),
    "writer stopped": (stop_writer, 2),
    "standby stopped": (stop_standby, 0.5),
    "plants cut off, silent": (callers_silent, 1.5),
    "plants cut off, reset": (callers_reset, 1.5),
    "plants delayed": (callers_delayed, 1),
    "store: EIO or ENOSPC": (store_disk, 3),
    "clock stepped by hours": (clock_step, 1.5),
    "plant killed": (plant_kill, 2),
    "spool locked": (spool_locked, 1),
    "spool: EIO or ENOSPC": (spool_disk, 1.5),
    "spool damaged": (spool_damaged, 1),
    "spool deleted": (spool_deleted, 0.5),
}
POSTGRES: dict[str, tuple[Fault, float]] = {
    "writer stopped until its lock expired": (stop_writer_long, 1),
    "store cut off, silent": (store_silent, 2),
    "store cut off until the lock expired": (store_silent_long, 1),
    "store cut off, reset": (store_reset, 2),
    "store delayed": (store_delayed, 1),
    "PostgreSQL crashed": (database_crash, 1),
}


def faults_for(store: str) -> dict[str, tuple[Fault, float]]:
    """Return the faults of a kind of store by their names, each with its weight."""
    return {**EVERYWHERE, **(POSTGRES if store == "postgres" else {})}
