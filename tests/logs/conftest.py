"""An object store for the tests of logs in one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from stores import KEY, SECRET, Store, moto


@pytest.fixture(scope="session")
def server() -> Iterator[Store]:
    """A server that speaks S3, one for all tests of a process."""
    with moto() as found:
        yield found


@pytest.fixture
def store(server: Store, environment: pytest.MonkeyPatch) -> Store:
    """The server, with everything that leads to it in the environment."""
    environment.setenv("AWS_ENDPOINT_URL", f"http://{server.endpoint}")
    environment.setenv("AWS_ACCESS_KEY_ID", KEY)
    environment.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    return server


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No settings of a cloud but those that a test makes: nothing leaves this machine."""
    for name in (
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_S3",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_PROFILE",
        "AWS_SESSION_TOKEN",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    return monkeypatch
