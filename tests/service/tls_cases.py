"""Certificates to test with: an authority, and what it signs."""

from __future__ import annotations

import contextlib
import ipaddress
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from postgres_server import free_port

from aegis.service.app import Service, make_app


@dataclass(frozen=True)
class Authority:
    """An authority whose files are in a folder."""

    folder: Path
    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def make(cls, folder: Path, name: str) -> Authority:
        """Return a new one."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, name, key, True)
        made = cls(folder, name, key, certificate)
        made.ca.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return made

    @property
    def ca(self) -> Path:
        """Return its file."""
        return self.folder / f"{self.name}.pem"

    def sign(self, name: str, expired: bool = False) -> tuple[str, str]:
        """Return the files of a certificate for a host, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(name, key, self.name, self.key, False, expired)
        files = self.folder / f"{name}-{expired}.crt", self.folder / f"{name}-{expired}.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain))
        return str(files[0]), str(files[1])


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    signer: ec.EllipticCurvePrivateKey,
    authority: bool,
    expired: bool = False,
) -> x509.Certificate:
    now = datetime.now(UTC) - timedelta(days=30)
    with contextlib.suppress(ValueError):
        alternative: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
    if not name[:1].isdigit():
        alternative = x509.DNSName(name)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1 if expired else 90))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([alternative]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    return builder.sign(signer, hashes.SHA256())


@contextlib.contextmanager
def served_over_tls(service: Service, files: tuple[str, str], clients: Path | None = None) -> Iterator[str]:
    """Yield the address of a service over TLS. clients: the authority of its callers."""
    port = free_port()
    config = uvicorn.Config(
        make_app(service),
        "127.0.0.1",
        port,
        log_config=None,
        access_log=False,
        ssl_certfile=files[0],
        ssl_keyfile=files[1],
        ssl_ca_certs=None if clients is None else str(clients),
        ssl_cert_reqs=ssl.CERT_NONE if clients is None else ssl.CERT_REQUIRED,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"https://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)
