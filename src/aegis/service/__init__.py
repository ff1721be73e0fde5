"""The live gate: decisions over HTTP beside a running controller, a store that loses nothing, a dashboard, a client."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aegis.lazy import import_on_use

if TYPE_CHECKING:
    from aegis.service.app import Service, make_app
    from aegis.service.auth import list_tokens, make_token, revoke_token
    from aegis.service.client.choices import ActionChoice, UnreportedChoice
    from aegis.service.client.counters import ClientCounters
    from aegis.service.client.gate_client import Client, Episode
    from aegis.service.episode_counter import EpisodeCounter
    from aegis.service.gate_problem import live_problem, sends_incumbent
    from aegis.service.http.connections import GateServer, raise_file_limit, server_config
    from aegis.service.integrity import check_gate, check_store, rekey_gate
    from aegis.service.journal_archive import ArchiveReport, archive_gate
    from aegis.service.journal_export import export_gate
    from aegis.service.live_gate import LiveGate
    from aegis.service.snapshot_writer import check_snapshots
    from aegis.service.store.backup import restore_backup, write_backup
    from aegis.service.store.chain import ChainHead, parse_heads
    from aegis.service.store.database import Database
    from aegis.service.store.journal import Journal, JournalRecord, list_gates, list_heads
    from aegis.service.store.journal_keys import JournalKeys, load_journal_keys, make_journal_key
    from aegis.service.trainer import TrainerProcess, TrainerSetup

_MODULES = {
    "app": "Service make_app",
    "auth": "list_tokens make_token revoke_token",
    "client.choices": "ActionChoice UnreportedChoice",
    "client.counters": "ClientCounters",
    "client.gate_client": "Client Episode",
    "episode_counter": "EpisodeCounter",
    "gate_problem": "live_problem sends_incumbent",
    "http.connections": "GateServer raise_file_limit server_config",
    "integrity": "check_gate check_store rekey_gate",
    "journal_archive": "ArchiveReport archive_gate",
    "journal_export": "export_gate",
    "live_gate": "LiveGate",
    "snapshot_writer": "check_snapshots",
    "store.backup": "restore_backup write_backup",
    "store.chain": "ChainHead parse_heads",
    "store.database": "Database",
    "store.journal": "Journal JournalRecord list_gates list_heads",
    "store.journal_keys": "JournalKeys load_journal_keys make_journal_key",
    "trainer": "TrainerProcess TrainerSetup",
}

__all__ = [
    "ActionChoice",
    "ArchiveReport",
    "ChainHead",
    "Client",
    "ClientCounters",
    "Database",
    "Episode",
    "EpisodeCounter",
    "GateServer",
    "Journal",
    "JournalKeys",
    "JournalRecord",
    "LiveGate",
    "Service",
    "TrainerProcess",
    "TrainerSetup",
    "UnreportedChoice",
    "archive_gate",
    "check_gate",
    "check_snapshots",
    "check_store",
    "export_gate",
    "list_gates",
    "list_heads",
    "list_tokens",
    "live_problem",
    "load_journal_keys",
    "make_app",
    "make_journal_key",
    "make_token",
    "parse_heads",
    "raise_file_limit",
    "rekey_gate",
    "restore_backup",
    "revoke_token",
    "sends_incumbent",
    "server_config",
    "write_backup",
]

__getattr__ = import_on_use("aegis.service", _MODULES)
