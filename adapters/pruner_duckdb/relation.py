"""The result of `sql()`: a relation that plans again whenever it runs, including the conditions added to it later.

DuckDB's own relation is lazy. One that held a list of files would miss every file that is committed between `sql()`
and the moment it runs. So this one holds the statement, creates DuckDB's relation again for each run, and applies the
same methods to it.

Conditions, orders and limits that are added to a relation later become part of its statement, so that its scans are
pruned by them, too.
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
"""Methods whose result outlives the run and keeps its list of files."""

_COMPOSED: Final = {"filter": ("filter_expr",), "order": ("order_expr",), "limit": ("n", "offset")}
"""Methods that become part of the statement, and the names of their arguments."""

Composed = Callable[[str, Sequence[object]], "LazyRelation | None"]
"""Takes a method and its arguments; None where DuckDB itself must apply it to its relation, or reject it."""


RetryInFull = Callable[[duckdb.Error, Callable[[duckdb.DuckDBPyRelation], Any]], Any]
"""Runs a statement over all files: takes the error with which it failed, and a function that uses DuckDB's relation."""

_Result = TypeVar("_Result")


def _nothing() -> None:
    """Do nothing: there is no one to notify."""


class LazyRelation:
    """Behaves like `duckdb.DuckDBPyRelation`; methods that return relations return a `LazyRelation`.

    `fetchone` and `fetchmany`, which DuckDB 2.0 removed, run the statement once and iterate over its rows, which stay
    in DuckDB's memory.
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
            make: creates DuckDB's relation.
            told: returns the cause of an error of that relation.
            look_again: makes `make` plan with fresh snapshots of the tables.
            composed: makes a condition, an order or a limit part of the statement.
            handed_out: is called before a caller may change the database through the relation.
            retry_in_full: uses DuckDB's relation over all files, after an error about a value; raises that error again
                if this fails, too.
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
        """Use DuckDB's relation over the tables as they are now.

        Raises:
            PrunerError: a table cannot be listed completely.
            duckdb.Error: DuckDB rejects the statement.
        """
        try:
            return use(self._make())
        except duckdb.Error as error:
            told = self._told(error)
            if self._retry_in_full is not None and isinstance(told, VALUE_ERRORS):
                return self._retry_in_full(told, use)
            if not isinstance(error, duckdb.IOException) and not isinstance(told, TableError):
                raise told from error.__cause__
            # A cleaner may have removed a file since the plan was made: plan again, once.
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
    """The arguments of a method in their order; None where it is not composed, or has other arguments."""
    known = _COMPOSED.get(name, ())[len(arguments) :]
    later = known[: len(named)]
    if name not in _COMPOSED or len(arguments) > len(_COMPOSED[name]) or set(later) != set(named):
        return None
    return [*arguments, *(named[each] for each in later)]


def _native(value: Any) -> Any:
    return value.native() if isinstance(value, LazyRelation) else value


def _rows_of_one_run(native: duckdb.DuckDBPyRelation) -> Iterator[tuple[Any, ...]]:
    """Run a relation now and iterate over its rows. They stay in DuckDB's memory, so that later calls on the connection
    do not end the iteration: DuckDB 1.5 drops what it has not read by then.
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
    """The tables that a condition reads itself; None if it is no expression, or has parameters, which would be taken
    for those of the statement.

    Args:
        condition: the argument of `filter`.
        parse: parses a SELECT.
    """
    if not _is_one_piece(condition, separators=";,"):
        return None
    if any(token.kind == "mark" for token in tokens(condition.encode())):
        return None
    try:
        # A query is an expression only in parentheses, and what may follow an expression is an error there.
        parse(f"SELECT {condition}\n")
        return parse(f"SELECT ({condition}\n)").references
    except NotSelect:
        return None


def with_condition(text: str, condition: str, alias: str | None) -> str | None:
    """Return a SELECT of the rows of another one that meet a condition, as DuckDB's `filter` does.

    Args:
        text: one SELECT.
        condition: one expression.
        alias: the name by which the condition may refer to the relation; "" if it has none, None if the condition may
            directly follow the text itself.

    Returns:
        None unless parentheses are certain to enclose the whole statement.
    """
    statement = text.strip().rstrip(";")
    if not _is_one_piece(statement, separators=";"):
        return None
    if alias is None:
        return f"{statement}\nWHERE ({condition}\n)"
    if not alias:
        # The same alias for the same texts, so that the plan can be reused; nothing in the condition refers to it.
        alias = _UNNAMED
        while alias in condition.lower():
            alias += "_"
    # Either may end with a comment.
    return f"SELECT * FROM ({statement}\n) AS {quote(alias)} WHERE ({condition}\n)"


def with_order(text: str, order: str, alias: str | None) -> str | None:
    """Return a SELECT of the rows of another one in an order, as DuckDB's `order` does.

    Takes and returns the same as `with_condition`; the order is what may follow ORDER BY.
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
"""Columns that a table has, but no query over it."""


def is_about_columns(select: Select) -> bool:
    """Tell whether an expression means the same in the query of a table as over its rows: columns by bare names."""
    return b"." not in select.text and not select.columns & _OF_FILES


def shows_a_table(tree: Mapping[str, Any]) -> bool:
    """Tell whether a SELECT in DuckDB's parse tree returns all columns of one table unchanged, for all rows or some."""
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
    """Return a SELECT of some of the first rows of another one without a LIMIT; None as for `with_condition`."""
    statement = text.strip().rstrip(";")
    counts = [count for count in (rows, skipped) if type(count) is int and count >= 0]
    if len(counts) < 2 or not _is_one_piece(statement, separators=";"):
        return None
    return f"{statement}\nLIMIT {counts[0]}" + (f" OFFSET {counts[1]}" if counts[1] else "")


def _is_one_piece(text: str, *, separators: str) -> bool:
    """Tell whether parentheses around a text enclose all of it, and it has no separator outside of brackets."""
    depth = 0
    for token in tokens(text.encode()):
        if token.kind == "sign":
            sign = token.text.encode()[0]
            depth += (sign in OPENING) - (sign in CLOSING)
            if depth < 0 or (depth == 0 and token.text in separators):
                return False
    return depth == 0
