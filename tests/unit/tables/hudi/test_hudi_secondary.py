"""Plans from made-up secondary indexes of Hudi's: what they prove, and when they are not trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pruner.tables.hudi.metadata.counting import escaped, unescaped
from tests.support.hudi.made_up.metadata import INITIAL, Stat
from tests.support.running.profiles import examples
from tests.unit.tables.hudi.test_hfile import MUTATIONS, mutated
from tests.unit.tables.hudi.test_hudi_keys import BORN_NOW, EVERYTHING, LATER, WITH_KEY, Keyed

INDEX = "secondary_index_by_name"
VALUES = ("plain", "", "a$b", "a", "back\\slash", "$", "Zürich", "\0")
"""Names of the rows 0 to 7; the others are called after their id, but for 39, which has none."""


class Named(Keyed):
    """A table of four groups with a column `name`, and Hudi's index over it."""

    def __init__(self, root: Path, properties: Mapping[str, str] = BORN_NOW, index: str = INDEX) -> None:
        super().__init__(root, properties=properties, partitions=f"record_index,{index}")
        columns = [("name", "string"), ("seats", "int"), ("fare", "double")]
        more = [{"name": name, "type": ["null", type_], "default": None} for name, type_ in columns]
        self.table.schema = {**WITH_KEY, "fields": [*WITH_KEY["fields"], *more]}
        self.table.update([(group.partition, group.file_id) for group in self.groups])
        self.groups = list(self.table.groups.values())
        self.metadata.append(INITIAL, [stat for number in range(4) for stat in self.stats(number)])
        self.keys.define(index, "name")
        self.keys.locate(self.places())

    def entries(self) -> list[tuple[str, str]]:
        """The pairs of the index."""
        names = [escaped(VALUES[id_]) if id_ < len(VALUES) else f"n{id_}" for id_ in range(39)]
        return [(name, str(id_)) for id_, name in enumerate([*names, "\0"])]


@pytest.fixture
def named(tmp_path: Path) -> Named:
    """A table with a complete secondary index."""
    found = Named(tmp_path / "table")
    found.keys.second(INDEX, found.entries())
    return found


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("name = 'n15'", [1]),
        ("name IN ('n15', 'n35')", [1, 3]),
        ("name = 'n15' OR name = 'n22'", [1, 2]),
        ("name = 'n15' AND id > 3", [1]),
        ("name = ''", [0]),
        ("name = 'a'", [0]),
        ("name = 'a$b'", [0]),
        ("name = '$'", [0]),
        ("name = 'back\\slash'", [0]),
        ("name = 'Zürich'", [0]),
        ("name = 'n'", []),
        ("name = 'n15$'", []),
        ("name IN ('n15', NULL)", [1]),
        ("name IS NULL", EVERYTHING),
        ("name != 'n15'", EVERYTHING),
        ("NOT name = 'n15'", EVERYTHING),
        ("name > 'n15'", EVERYTHING),
        ("name LIKE 'n15%'", EVERYTHING),
        ("name = 'n15' OR id = 3", EVERYTHING),
    ],
)
def test_values_are_looked_up(named: Named, predicate: str, expected: list[int]) -> None:
    assert named.kept(predicate) == expected
    assert named.kept(predicate, hudi_indexes=False) == EVERYTHING


def test_reports_name_the_index(named: Named) -> None:
    assert "hudi.secondary_index_by_name: name IN ('n15')" in named.open().plan("name = 'n15'").explain()
    used = named.open().status().hudi_indexes[INDEX]
    assert used == "used for name: 40 entries, as many as rows"


@given(text=st.text(st.sampled_from("$\\\0a")))
def test_escapes_are_undone(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert "$" not in escaped(text).replace("\\\\", "").replace("\\$", "")


@pytest.mark.slow
def test_integers_are_looked_up_by_their_digits(tmp_path: Path) -> None:
    named = Named(tmp_path / "table")
    named.keys.define(INDEX, "seats")
    named.keys.second(INDEX, [(str(id_ - 5), str(id_)) for id_ in range(40)])
    assert named.kept("seats = -5") == [0]
    assert named.kept("seats IN (5, 30)") == [1, 3]
    assert named.kept("seats BETWEEN 4 AND 5") == [0, 1]
    assert named.kept("NOT (seats < 5 OR seats > 6)") == [1]
    assert named.kept("seats BETWEEN 4 AND 4000") == EVERYTHING


def test_other_types_are_not_looked_up(tmp_path: Path) -> None:
    """Nothing shows how Hudi writes a double as text."""
    named = Named(tmp_path / "table")
    named.keys.define(INDEX, "fare")
    named.keys.second(INDEX, [(f"{id_}.0", str(id_)) for id_ in range(40)])
    assert named.kept("fare = 7.0") == EVERYTHING


@pytest.mark.slow
def test_log_files_are_counted(named: Named) -> None:
    """A row gets another name, one is removed and comes back; then there is one entry too many."""
    moved = {("n15", "15"): True, ("new", "15"): False, ("n22", "22"): True}
    named.keys.second_log(INDEX, LATER, moved)
    assert named.kept("name = 'n15'") == [1], "the instant has not completed"
    named.metadata.complete(LATER)
    assert named.kept("name = 'new'") == EVERYTHING
    assert "it has 39 entries and the files have 40 rows" in named.notes("name = 'new'")
    named.keys.second_log(INDEX, LATER, {("n22", "22"): False})
    assert [named.kept(f"name = '{name}'") for name in ("new", "n15", "n22")] == [[1], [], [2]]
    named.keys.second_log(INDEX, LATER, {("n23", "22"): False})
    assert named.kept("name = 'new'") == EVERYTHING


def test_an_entry_of_no_row_is_not_followed(named: Named) -> None:
    """It compensates for the missing entry of row 15, so that the numbers agree."""
    named.metadata.complete(LATER)
    named.keys.second_log(INDEX, LATER, {("n15", "15"): True, ("n15", "gone"): False})
    assert named.kept("name = 'n15'") == EVERYTHING
    assert "it lacks keys that another index says are those of rows" in named.notes("name = 'n15'")
    assert named.kept("name = 'n22'") == [2]


def test_an_index_that_lost_a_log_file_is_not_believed(named: Named) -> None:
    named.keys.second_log(INDEX, LATER, {("n15", "15"): True, ("n15", "22"): False})
    log = next((named.metadata.root / INDEX).glob(".*.log.*"))
    group = log.name[1:].partition("_")[0]
    written = {INDEX: [{"fileId": group, "logFiles": [log.name]}]}
    commit = named.metadata.root / ".hoodie" / f"{LATER}.deltacommit"
    commit.write_text(json.dumps({"partitionToWriteStats": written}))
    log.unlink()
    assert named.kept("name = 'n15'") == EVERYTHING
    assert "has lost the log file" in named.notes("name = 'n15'")


@pytest.mark.slow
def test_it_is_not_believed_without_the_record_index(tmp_path: Path) -> None:
    """A key is in two files: the record index has 40 keys, the files have 41 rows."""
    named = Named(tmp_path / "table")
    named.keys.second(INDEX, named.entries())
    named.metadata.append(LATER, named.stats(3, values=11))
    named.metadata.complete(LATER)
    assert named.kept("name = 'n15'") == EVERYTHING
    assert "the record index, to which it leads, is not believed" in named.notes("name = 'n15'")


def test_tables_of_older_writers_are_not_believed(tmp_path: Path) -> None:
    """hudi#14090: the entry of a row that moved to another partition was lost."""
    named = Named(tmp_path / "table", {"hoodie.table.initial.version": "8"})
    named.keys.second(INDEX, named.entries())
    assert named.kept("name = 'n15'") == EVERYTHING
    assert "hudi#14090" in named.notes("name = 'n15'")


def test_after_schema_on_read_it_is_not_believed(named: Named) -> None:
    """The name may have belonged to another column when the index was created."""
    schemas = named.table.root / ".hoodie" / ".schema"
    schemas.mkdir()
    (schemas / f"{LATER}.schemacommit").write_text('{"schemas": []}')
    assert named.kept("name = 'n15'") == EVERYTHING
    assert "a change of the schema" in named.notes("name = 'n15'")


def test_texts_of_files_with_other_types_are_not_believed(named: Named) -> None:
    """A column that was once a double: its text may differ from what engines write."""
    group = named.groups[0]
    named.metadata.append(LATER, [Stat(group.partition, group.base, "name", 1.5, 2.5, values=10)])
    named.metadata.complete(LATER)
    assert named.kept("name = 'n15'") == EVERYTHING
    assert "values of another type" in named.notes("name = 'n15'")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("content", [b"", b"[]", b'{"indexDefinitions": {"secondary_index_by_name": 3}}'])
def test_damaged_definitions_keep_everything(named: Named, content: bytes) -> None:
    (named.table.root / ".hoodie" / ".index_defs" / "index.json").write_bytes(content)
    assert named.kept("name = 'n15'") == EVERYTHING
    assert "definitions of indexes" in named.notes("name = 'n15'")
    assert "definitions of indexes" in named.open().status().hudi_indexes[INDEX]


def test_definitions_of_several_columns_are_not_used(named: Named) -> None:
    named.keys.define(INDEX, "name", "city")
    assert named.kept("name = 'n15'") == EVERYTHING


def test_time_travel_does_not_ask_it(named: Named) -> None:
    then = named.groups[0].instant
    named.table.update([(named.groups[3].partition, named.groups[3].file_id)])
    assert named.open().snapshot(as_of=then).plan("name = 'n15'").kept == 4


@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 2), mutations=MUTATIONS)
def test_no_damage_loses_a_row(
    place: int, mutations: Sequence[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    named = Named(tmp_path_factory.mktemp("damaged") / "table")
    named.keys.second(INDEX, named.entries())
    target = sorted((named.metadata.root / INDEX).glob("*.hfile"))[place]
    target.write_bytes(mutated(target.read_bytes(), mutations))
    assert 1 in named.kept("name = 'n15'")
