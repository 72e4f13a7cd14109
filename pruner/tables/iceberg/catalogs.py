"""Tables by their names in Iceberg catalogs, `iceberg://catalog/namespace/table`: looked up through PyIceberg.

A catalog provides a table's newest metadata file, its location, and often the credentials for its store. Everything
else is read as for any other table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pruner.errors import StorageError, TableError, first_line
from pruner.plugins import installing
from pruner.tables.iceberg.places import IN_CATALOG, place_of, spelled

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

EXTRA: Final = "iceberg"
_FEWEST_NAMES: Final = 2
"""A namespace and a table."""

_OPTIONS: Final = {
    "s3": {
        "aws_access_key_id": ("s3.access-key-id", "client.access-key-id"),
        "aws_secret_access_key": ("s3.secret-access-key", "client.secret-access-key"),
        "aws_session_token": ("s3.session-token", "client.session-token"),
        "aws_region": ("s3.region", "client.region"),
        "aws_endpoint": ("s3.endpoint",),
        "aws_skip_signature": ("s3.anonymous",),
        "aws_virtual_hosted_style_request": ("s3.force-virtual-addressing",),
    },
    "gs": {"bearer_token": ("gcs.oauth2.token",), "base_url": ("gcs.service.host",)},
    "abfss": {
        "account_name": ("adls.account-name",),
        "azure_storage_account_key": ("adls.account-key",),
        "azure_storage_sas_token": ("adls.sas-token",),
        "azure_storage_tenant_id": ("adls.tenant-id",),
        "azure_storage_client_id": ("adls.client-id",),
        "azure_storage_client_secret": ("adls.client-secret",),
        "azure_storage_token": ("adls.token",),
        "azure_skip_signature": ("adls.anon",),
    },
}
"""For each kind of store our options, and the equivalent PyIceberg properties, the first of which takes precedence."""

_NOT_HAD: Final = {
    "s3": (
        "s3.role-arn",
        "client.role-arn",
        "s3.profile-name",
        "client.profile-name",
        "s3.signer",
        "s3.proxy-uri",
    ),
    "gs": (),
    "abfss": ("adls.connection-string", "adls.account-host", "adls.blob-storage-authority"),
}
"""Properties that are needed to read a store as the catalog intends, and for which there is no option here."""

_KINDS: Final = {"s3": "s3", "gs": "gs", "az": "abfss", "abfs": "abfss", "abfss": "abfss"}


@dataclass(frozen=True)
class Pointed:
    """What a catalog returns for a table: its folder, its newest metadata file, and the options of its store."""

    root: str
    metadata: str
    options: Mapping[str, str]


class CatalogTable:
    """A table of a catalog, which can be looked up any number of times.

    `uri` is normalized by `normalize_uri`. `given` are options of the store, which replace the catalog's.
    """

    def __init__(self, uri: str, given: Mapping[str, str] | None = None) -> None:
        self.uri = uri
        self._given = dict(given or {})
        self._catalog, *self._names = uri.removeprefix(IN_CATALOG).split("/")
        if len(self._names) < _FEWEST_NAMES:
            raise TableError(
                f"{uri} names no table: write {IN_CATALOG}catalog/namespace/table, with as many namespaces as it has"
            )
        self._loaded: Any = None

    def look(self) -> Pointed:
        """Look up the current state of the table in the catalog.

        Raises:
            TableError: there is no such catalog or table, or PyIceberg is not installed.
            StorageError: the catalog cannot be queried.
        """
        table = self._ask()
        metadata = str(table.metadata_location or "")
        if not metadata:
            raise TableError(
                f"the Iceberg catalog {self._catalog!r} names no metadata file of {self.uri}, as `pruner serve` does "
                "not: name the table by the catalog that keeps it"
            )
        try:
            root = spelled(str(table.metadata.location))
        except StorageError as error:
            raise TableError(f"{self.uri} lies in a store that is not read: {error}") from None
        return Pointed(
            root, place_of(metadata, root), self._given or store_options(root, table.io.properties)
        )

    def _ask(self) -> Any:
        name = ".".join(self._names)
        if self._loaded is None:
            self._loaded = self._load()
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            return self._loaded.load_table(tuple(self._names))
        except (NoSuchTableError, NoSuchNamespaceError):
            raise TableError(
                f"the Iceberg catalog {self._catalog!r} has no table {name}: check the names in {self.uri}"
            ) from None
        except Exception as error:
            raise self._failed(error) from error

    def _load(self) -> Any:
        catalogs = _pyiceberg()
        from pyiceberg.utils.config import Config

        try:
            # PyIceberg reads its configuration once, on import, and a service may outlive that.
            properties: Any = Config().get_catalog_config(self._catalog)
        except Exception as error:
            raise self._failed(error) from error
        if properties is None:
            variable = f"PYICEBERG_CATALOG__{self._catalog.upper().replace('-', '_')}__URI"
            raise TableError(
                f"PyIceberg's configuration has no catalog {self._catalog!r}: name it in .pyiceberg.yaml, or set "
                f"{variable}"
            )
        try:
            return catalogs.load_catalog(self._catalog, **properties)
        except Exception as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> TableError | StorageError:
        """The error to raise for one from PyIceberg, or from a library below it."""
        if isinstance(error, ImportError):
            return TableError(
                f"PyIceberg lacks a library for the catalog {self._catalog!r} ({first_line(error)}): install the extra "
                "of pyiceberg for catalogs of this kind"
            )
        return StorageError(
            f"the Iceberg catalog {self._catalog!r} cannot be asked for {self.uri}: {first_line(error)}"
        )


def store_options(root: str, properties: Mapping[str, Any]) -> dict[str, str]:
    """The options of a table's store, from the properties that PyIceberg has for it.

    Raises:
        TableError: a property that determines how to access the store has no equivalent option.
    """
    kind = _KINDS.get(root.partition("://")[0])
    if kind is None:
        return {}
    foreign = [name for name in _NOT_HAD[kind] if properties.get(name)]
    if foreign:
        raise TableError(
            f"the Iceberg catalog of {root} sets {foreign[0]}, which is not supported here: give storage_options"
        )
    options = {
        option: str(properties[name])
        for option, names in _OPTIONS[kind].items()
        for name in reversed(names)
        if properties.get(name) is not None
    }
    account = f"adls.sas-token.{_account(root)}."
    lent = [str(value) for name, value in properties.items() if f"{name}.".startswith(account)]
    if kind == "abfss" and lent:
        options["azure_storage_sas_token"] = lent[0]
    plain = any(options.get(name, "").startswith("http://") for name in ("aws_endpoint", "base_url"))
    return options | ({"allow_http": "true"} if plain else {})


_SPELLED_ALSO: Final = {"token": "session_token", "default_region": "region", "endpoint_url": "endpoint"}
"""Alternative names of S3 options."""

_PREFIXES: Final = re.compile("^(aws_|google_|azure_storage_|azure_)")


def client_properties(root: str, options: Mapping[str, str]) -> dict[str, str]:
    """The properties with which Iceberg's clients read a table's store with our options: the inverse of
    `store_options`. Options without a client property are omitted, and so are all for a table in none of these stores.
    """
    kind = _KINDS.get(root.partition("://")[0])
    if kind is None:
        return {}
    named = {_PREFIXES.sub("", option): names for option, names in _OPTIONS[kind].items()}
    found: dict[str, str] = {}
    for option, value in options.items():
        plain = _PREFIXES.sub("", option.lower())
        if kind == "s3":
            plain = _SPELLED_ALSO.get(plain, plain)
        if plain in named:
            found[named[plain][0]] = value
    if "s3.region" in found:
        found["client.region"] = found["s3.region"]  # Java clients know no other name
    if "s3.endpoint" in found:
        # Otherwise they would use a host named after the bucket; PyIceberg and our own reader do not.
        virtual = found.get("s3.force-virtual-addressing", "false").lower() == "true"
        found["s3.path-style-access"] = "false" if virtual else "true"
    return found


def _account(root: str) -> str:
    """The account in the URI of an Azure store, after the container."""
    return root.partition("://")[2].partition("/")[0].rpartition("@")[2].partition(".")[0]


def _pyiceberg() -> ModuleType:
    """PyIceberg's catalogs.

    Raises:
        TableError: it is not installed.
    """
    try:
        import pyiceberg.catalog as catalogs
    except ImportError as error:
        raise TableError(
            f"tables of Iceberg catalogs need PyIceberg ({error}): {installing(EXTRA)}"
        ) from error
    return catalogs
