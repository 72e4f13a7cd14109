"""The result of `sql()`: a relation that plans again whenever it runs, with the conditions put on it later.

DuckDB's own relation is lazy. One that held a list of files would lose every file that is committed between `sql()`
and the moment it runs. So this one holds the statement, makes DuckDB's relation anew for each run, and applies the
same methods to it.

Conditions, orders and limits that are put on a relation later, as part of its statement: then its scans are pruned by
them, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import duckdb

from pruner.errors import PrunerError, TableError
from pruner_duckdb.plainly import VALUE_ERRORS
from pruner_duckdb.shadow.answers import READING
from pruner_duckdb.sql.select import NotSelect
from pruner_duckdb.sql.tokens import CLOSING, OPENING, tokens
from pruner_duckdb.types import quote

if TYPE_CHECKING:
    from pruner_duckdb.sql.forms import Parse
    from pruner_duckdb.sql.select import Select, TableReference

_FREEZING = frozenset(["create_view", "to_view"])
"""Methods whose result outlives the run with the list of files that it had."""

_COMPOSED: Final = {"filter": ("filter_expr",), "order": ("order_expr",), "limit": ("n", "offset")}
"""Methods that become a part of the statement, and what they call their arguments."""

Composed = Callable[[str, Sequence[object]], "LazyRelation | None"]
"""Takes a method and its arguments; None where DuckDB itself is to apply it to its relation, or to refuse it."""


RetryInFull = Callable[[duckdb.Error, Callable[[duckdb.DuckDBPyRelation], Any]], Any]
"""Runs a statement over all files: takes how it failed, and what is made of DuckDB's relation."""

_Result = TypeVar("_Result")


def _nothing() -> None:
    """Nobody is to be told."""


class LazyRelation:
    """Looks like `duckdb.DuckDBPyRelation`: its methods work, and those that return relations return a `LazyRelation`.

    `fetchone` and `fetchmany`, which DuckDB 2.0 removed, run the statement once and go through its rows, which stay in
    DuckDB's memory.
    """

    def __init__(
        self,
        make: Callable[[], duckdb.DuckDBPyRelation],
        told: Callable[[duckdb.Error], Exception],
        look_again: Callable[[], None],
        composed: Composed | None = None,
        handed_out: Callable[[], None] = _nothing,
        retry_in_full: RetryInFull | None = None,
    ) -> None:
        """Hold what is needed to run the statement whenever the relation runs.

        Args:
            make: makes DuckDB's relation.
            told: tells the cause of an error of that relation.
            look_again: lets `make` plan for the tables as they are then.
            composed: makes a condition, an order or a limit part of the statement.
            handed_out: to be told before somebody may change the database by way of the relation.
            retry_in_full: uses DuckDB's relation over all files, after an error that a value made; raises it again
                where that fails, too.
        """
        self._make = make
        self._told = told
        self._look_again = look_again
        self._composed = composed
        self._handed_out = handed_out
        self._retry_in_full = retry_in_full
        self._rows: Iterator[tuple[Any, ...]] | None = None

    def native(self) -> duckdb.DuckDBPyRelation:
        """Return DuckDB's relation over the tables as they are now; use it at once."""
        self._handed_out()
        return self._make()

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None after the last."""
        return next(self._remaining(), None)

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next `size` rows, fewer at the end."""
        return list(islice(self._remaining(), size))

    def _remaining(self) -> Iterator[tuple[Any, ...]]:
        if self._rows is None:
            self._rows = self._on_native(_rows_of_one_run)
        return self._rows

    def _on_native(self, use: Callable[[duckdb.DuckDBPyRelation], _Result]) -> _Result:
        """What comes of DuckDB's relation over the tables as they are now.

        Raises:
            PrunerError: a table cannot be listed completely.
            duckdb.Error: whatever DuckDB refuses.
        """
        try:
            return use(self._make())
        except duckdb.Error as error:
            told = self._told(error)
            if self._retry_in_full is not None and isinstance(told, VALUE_ERRORS):
                return self._retry_in_full(told, use)
            if not isinstance(error, duckdb.IOException) and not isinstance(told, TableError):
                raise told from error.__cause__
            # A file that a cleaner removed since the plan was made is met by planning again, once.
            self._look_again()
        try:
            return use(self._make())
        except duckdb.Error as error:
            raise self._told(error) from error.__cause__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in _FREEZING:
            raise PrunerError(
                f"{name} would read only the files that the table has now, not later ones: create a table of the "
                "rows, or keep the relation itself"
            )
        if name not in READING:
            self._handed_out()
        if callable(getattr(duckdb.DuckDBPyRelation, name, None)):
            return self._wrapped(name)
        return getattr(self._make(), name)

    def _wrapped(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            def use(native: duckdb.DuckDBPyRelation) -> Any:
                plain = tuple(_native(argument) for argument in arguments)
                return getattr(native, name)(
                    *plain, **{key: _native(argument) for key, argument in named.items()}
                )

            given = _given(name, arguments, named)
            one = None if given is None or self._composed is None else self._composed(name, given)
            if one is not None:
                return one
            result = self._on_native(use)
            if not isinstance(result, duckdb.DuckDBPyRelation):
                return result

            def use_in_full(error: duckdb.Error, further: Callable[[duckdb.DuckDBPyRelation], Any]) -> Any:
                if self._retry_in_full is None:
                    raise error
                return self._retry_in_full(error, lambda native: further(use(native)))

            return LazyRelation(
                lambda: use(self._make()),
                self._told,
                self._look_again,
                handed_out=self._handed_out,
                retry_in_full=use_in_full,
            )

        return call

    def __getitem__(self, name: str) -> Any:
        self._handed_out()
        return self._make()[name]

    def __len__(self) -> int:
        return len(self._make())

    def __contains__(self, name: object) -> bool:
        return name in self._make().columns

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._make().__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        return str(self._make())

    def __repr__(self) -> str:
        return repr(self._make())


def _given(name: str, arguments: Sequence[object], named: Mapping[str, object]) -> list[object] | None:
    """The arguments of a method in their order; None where it is not composed, or has others."""
    known = _COMPOSED.get(name, ())[len(arguments) :]
    later = known[: len(named)]
    if name not in _COMPOSED or len(arguments) > len(_COMPOSED[name]) or set(later) != set(named):
        return None
    return [*arguments, *(named[each] for each in later)]


def _native(value: Any) -> Any:
    return value.native() if isinstance(value, LazyRelation) else value


def _rows_of_one_run(native: duckdb.DuckDBPyRelation) -> Iterator[tuple[Any, ...]]:
    """The rows of a relation that runs now, one by one. They stay in DuckDB's memory, so that nothing that the
    connection does meanwhile ends them: DuckDB 1.5 drops what it has not read by then.
    """
    of_either_version: Any = native
    if hasattr(native, "iter_rows"):
        rows = iter(of_either_version.iter_rows())
    else:
        rows = iter(of_either_version.execute().fetchone, None)
    first = list(islice(rows, 1))  # by then it has run
    return chain(first, rows)


_UNNAMED: Final = "unnamed_relation"


def read_by(condition: str, parse: Parse) -> tuple[TableReference, ...] | None:
    """The tables that a condition reads itself; None for what is no expression or has parameters, which would be taken
    for those of the statement.

    Args:
        condition: what `filter` was given.
        parse: takes a SELECT apart.
    """
    if not _is_one_piece(condition, separators=";,"):
        return None
    if any(token.kind == "mark" for token in tokens(condition.encode())):
        return None
    try:
        # A query is an expression in brackets alone, and what may follow an expression is none there.
        parse(f"SELECT {condition}\n")
        return parse(f"SELECT ({condition}\n)").references
    except NotSelect:
        return None


def with_condition(text: str, condition: str, alias: str | None) -> str | None:
    """Return a SELECT of the rows of another one that meet a condition, which is what DuckDB's `filter` makes.

    Args:
        text: one SELECT.
        condition: one expression.
        alias: by which the condition may call the relation; "" where it has no name, None where the condition may stand
            behind the text itself.

    Returns:
        None where brackets do not surely hold all of the statement.
    """
    statement = text.strip().rstrip(";")
    if not _is_one_piece(statement, separators=";"):
        return None
    if alias is None:
        return f"{statement}\nWHERE ({condition}\n)"
    if not alias:
        # The same for the same texts, so that what was planned serves again; nothing in the condition means it.
        alias = _UNNAMED
        while alias in condition.lower():
            alias += "_"
    # A comment may stand at the end of either.
    return f"SELECT * FROM ({statement}\n) AS {quote(alias)} WHERE ({condition}\n)"


def with_order(text: str, order: str, alias: str | None) -> str | None:
    """Return a SELECT of the rows of another one in an order, as DuckDB's `order` makes it.

    Takes and returns what `with_condition` does, with what may follow ORDER BY as the order.
    """
    statement = text.strip().rstrip(";")
    if (
        not order.strip()
        or not _is_one_piece(statement, separators=";")
        or not _is_one_piece(order, separators=";")
    ):
        return None
    if any(token.kind == "mark" for token in tokens(order.encode())):
        return None
    if alias is None:
        return f"{statement}\nORDER BY {order}\n"
    return f"SELECT * FROM ({statement}\n) AS {quote(alias or _UNNAMED)} ORDER BY {order}\n"


_OF_FILES = frozenset(["rowid", "filename", "file_row_number", "file_index"])
"""Columns that a table has, and no query over it."""


def is_about_columns(select: Select) -> bool:
    """Tell whether what is asked means the same beside a table as over its rows: columns by their bare names."""
    return b"." not in select.text and not select.columns & _OF_FILES


def shows_a_table(tree: Mapping[str, Any]) -> bool:
    """Tell whether a SELECT in DuckDB's parse tree shows all columns of one table as they are, of all rows or some."""
    shown: list[Mapping[str, Any]] = tree.get("select_list", [{}])
    unchanged = (
        "exclude_list",
        "qualified_exclude_list",
        "replace_list",
        "rename_list",
        "relation_name",
        "expr",
    )
    others = ("group_expressions", "group_sets", "having", "sample", "qualify", "modifiers")
    table: Mapping[str, Any] = tree.get("from_table") or {}
    return (
        tree["type"] == "SELECT_NODE"
        and len(shown) == 1
        and shown[0].get("type") == "STAR"
        and not any(shown[0].get(each) for each in unchanged)
        and not any(tree.get(each) for each in others)
        and table.get("type") == "BASE_TABLE"
        and not table.get("sample")
        and not table.get("column_name_alias")
    )


def with_limit(text: str, rows: object, skipped: object = 0) -> str | None:
    """Return a SELECT of some of the first rows of another one, which has no LIMIT; None as of `with_condition`."""
    statement = text.strip().rstrip(";")
    counts = [count for count in (rows, skipped) if type(count) is int and count >= 0]
    if len(counts) < 2 or not _is_one_piece(statement, separators=";"):
        return None
    return f"{statement}\nLIMIT {counts[0]}" + (f" OFFSET {counts[1]}" if counts[1] else "")


def _is_one_piece(text: str, *, separators: str) -> bool:
    """Tell whether brackets around a text hold all of it, and nothing separates parts of it outside of others."""
    depth = 0
    for token in tokens(text.encode()):
        if token.kind == "sign":
            sign = token.text.encode()[0]
            depth += (sign in OPENING) - (sign in CLOSING)
            if depth < 0 or (depth == 0 and token.text in separators):
                return False
    return depth == 0
