"""Every error that pruner raises on purpose.

The text of an error is part of the interface: one sentence that says what is wrong, where, and what to do about it.
"""


class PrunerError(Exception):
    """Base of all errors that pruner raises on purpose; catching it catches them all."""


class TableError(PrunerError):
    """A path that is not a table, an unsupported table format, or a listing that cannot be read completely."""


class SchemaError(PrunerError):
    """A column that does not exist, is ambiguous, or has a type that the request cannot use."""


class PredicateError(PrunerError):
    """A predicate that cannot be parsed or compared, or that exceeds the bounds of `pruner.limits`."""


class IndexDefinitionError(PrunerError):
    """An index that cannot be created, dropped or found as requested."""


class ConflictError(PrunerError):
    """Another writer committed first, and the two changes conflict."""


class FormatError(PrunerError):
    """Stored bytes that fail their checksum, or that a newer version of pruner wrote."""


class StorageError(PrunerError):
    """The store refused a read or a write, or failed at it."""


def first_line(error: BaseException) -> str:
    """The message of another library's error as a clause of one of ours: its first line, without the full stop."""
    return (str(error) or type(error).__name__).split("\n", 1)[0].rstrip(" .")


def cause(error: BaseException) -> str:
    """The same for a sentence of ours that already names the file, as a system error does, too."""
    return (isinstance(error, OSError) and error.strerror) or first_line(error)
