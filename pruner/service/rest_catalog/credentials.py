"""Store credentials for clients: the storage options of tables that `pruner.toml` allows, and of no others.

They are the credentials in the file, so they have the same lifetime and the same permissions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pruner.service.guard import CatalogError
from pruner.tables.iceberg.catalogs import client_properties

if TYPE_CHECKING:
    from collections.abc import Mapping

WANTED_BY: Final = "x-iceberg-access-delegation"
"""The header with which a client requests credentials along with a table."""

_WANTED: Final = "vended-credentials"

NOT_STORED: Final = {"Cache-Control": "no-store"}
"""Headers of responses with credentials."""


class Vending:
    """Hands out the storage options of tables to clients that may have them."""

    def __init__(self, *, has_token: bool) -> None:
        """`has_token` says whether the service authenticates its clients by a token."""
        self._has_token = has_token

    def config(self, options: Mapping[str, str] | None, root: str, header: str) -> dict[str, str]:
        """The store properties for a table's response; none unless the header requests them and they may be sent."""
        wanted = {each.strip().lower() for each in header.split(",")}
        if options is None or not self._has_token or _WANTED not in wanted:
            return {}
        return client_properties(root, options)

    def answer(self, name: str, options: Mapping[str, str] | None, root: str) -> list[dict[str, Any]]:
        """The credentials for a table that a client requests.

        Raises:
            CatalogError: the client gets none.
        """
        why = "pruner.toml does not set vend_credentials for it" if options is None else None
        if why is None and not self._has_token:
            why = "the service requires no token, and would hand them to anybody"
        found = {} if options is None else client_properties(root, options)
        if why is None and not found:
            why = "its storage_options have none"
        if why is not None:
            raise CatalogError(
                403,
                f"no credentials are handed out for table {name}: {why}; give the client its own",
                kind="ForbiddenException",
            )
        return storage_credentials(root, found)


def storage_credentials(root: str, config: dict[str, str]) -> list[dict[str, Any]]:
    """Credentials in the form that clients read: for everything below a root."""
    return [{"prefix": root, "config": config}] if config else []
