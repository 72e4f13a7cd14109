"""Limits and address of the service."""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pruner.catalog.settings import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

TOKEN_VARIABLE = "PRUNER_SERVICE_TOKEN"
"""Environment variable with the token that clients must send."""

SHORTEST_TOKEN = 16
"""Characters: a shorter token could be guessed."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on clients: bytes of a body; seconds for a request's head, its body and its answer, and of idle time
    between requests; concurrent requests and connections, and seconds that a request waits for its turn. A client that
    reads less than `serving.LEAST_READ` bytes of a pending answer in `read_seconds` is disconnected.
    """

    body_bytes: int = 4 * 1024 * 1024
    head_seconds: float = 5.0
    body_seconds: float = 5.0
    plan_seconds: float = 10.0
    idle_seconds: int = 30
    concurrent: int = 16
    wait_seconds: float = 10.0
    connections: int = 512
    read_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the service listens, and who may use it. The token stays out of the repr."""

    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = field(default=None, repr=False)
    certificate: Path | None = None
    private_key: Path | None = None
    insecure: bool = False
    limits: Limits = field(default_factory=Limits)

    def check(self) -> None:
        """Refuse settings that would let strangers in.

        Raises:
            ConfigError: it listens beyond this machine without a token or without TLS (unless `insecure`), the token is
                too short, or TLS cannot use the certificate.
        """
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ConfigError(f"the token in {TOKEN_VARIABLE} is shorter than {SHORTEST_TOKEN} characters")
        if (self.certificate is None) != (self.private_key is None):
            raise ConfigError("TLS needs both --certificate and --private-key")
        self._check_certificate()
        if _is_loopback(self.host):
            return
        if self.token is None:
            raise ConfigError(
                f"{self.host} is reachable from other machines: put a token into {TOKEN_VARIABLE}, "
                "or listen on 127.0.0.1"
            )
        if self.certificate is None and not self.insecure:
            raise ConfigError(
                f"{self.host} is reachable from other machines: give --certificate and --private-key for TLS, "
                "or --insecure if a proxy in front of the service provides TLS"
            )

    def _check_certificate(self) -> None:
        if self.certificate is None or self.private_key is None:
            return
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
                self.certificate, self.private_key
            )
        except OSError as error:
            raise ConfigError(
                f"TLS cannot use the certificate {self.certificate} with the private key {self.private_key}: "
                f"{error.strerror or error}; give a certificate chain and its key, both as PEM"
            ) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
