"""Names, types and paths: a pruned list of files never changes what a statement means."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import Compared, answer, indexed, oracle, write_tree


def types(connection: pruner_duckdb.Connection, sql: str) -> list[tuple[str, str]]:
    relation = connection.sql(sql)
    return list(zip(relation.columns, map(str, relation.types), strict=True))


@pytest.fixture
def evolved(tmp_path: Path) -> Path:
    """Files that differ: columns are added and removed, one is widened, a partition value looks like a number."""
    return write_tree(
        tmp_path / "evolved",
        {
            "r=1/a.parquet": "SELECT 1::INTEGER AS id, 'x' AS old",
            "r=2/b.parquet": "SELECT 5000000000::BIGINT AS id, 'y' AS old, 1.5::DOUBLE AS late",
            "r=abc/c.parquet": "SELECT 7::BIGINT AS id, 2.5::DOUBLE AS late",
            "r=__HIVE_DEFAULT_PARTITION__/d.parquet": "SELECT 8::BIGINT AS id, NULL::DOUBLE AS late",
        },
    )


EVOLVED = {
    "SELECT * FROM t": 4,
    "SELECT * FROM t WHERE id = 1": 1,
    "SELECT * FROM t WHERE id > 4000000000": 1,
    "SELECT * FROM t WHERE r = '1'": 1,
    "SELECT * FROM t WHERE r = 'abc'": 1,
    "SELECT * FROM t WHERE r IS NULL": 1,
    "SELECT * FROM t WHERE r < '3'": 2,
    "SELECT * FROM t WHERE late IS NULL": 2,
    "SELECT * FROM t WHERE late > 2": 1,
    "SELECT * FROM t WHERE old IS NOT NULL": 2,
    "SELECT * FROM t WHERE id = -1": 0,
    "SELECT r || old FROM t WHERE id IN (1, 7)": 2,
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("sql", EVOLVED)
def test_names_and_types_are_those_of_the_whole_table(evolved: Path, sql: str) -> None:
    pruned = pruner_duckdb.connect({"t": indexed(evolved)})
    compared = Compared(pruned, oracle({"t": evolved}))
    columns = "id, old, late, r"
    sql = sql.replace("*", columns)
    assert compared.kept(sql) == (EVOLVED[sql.replace(columns, "*")],)
    whole = types(pruned, f"SELECT {columns} FROM t")
    assert whole == [("id", "BIGINT"), ("old", "VARCHAR"), ("late", "DOUBLE"), ("r", "VARCHAR")]
    if columns in sql:
        assert types(pruned, sql) == whole


NAMES = ('a.b"c', "it's", "$x", "日本", "two words", "Select", "file_index", "filename", "pruner_0", "UPPER")


@pytest.mark.sampled(2)
def test_names_of_columns(tmp_path: Path) -> None:
    def query(number: int) -> str:
        quoted = ['"' + name.replace('"', '""') + '"' for name in NAMES]
        return "SELECT " + ", ".join(f"{number * 10 + place} AS {name}" for place, name in enumerate(quoted))

    root = write_tree(tmp_path / "names", {f"p={n}/f.parquet": query(n) for n in range(3)})
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    compared = Compared(pruned, oracle({"t": root}))
    for place, name in enumerate(NAMES):
        quoted = '"' + name.replace('"', '""') + '"'
        assert compared.kept(f"SELECT {quoted}, p::VARCHAR FROM t WHERE {quoted} = {10 + place}") == (1,), (
            name
        )
        assert compared.kept(f"SELECT max({quoted}) FROM t WHERE t.{quoted} > {20 + place}") == (0,), name
        assert compared.reasons() == [None]
    by_two = """SELECT upper, "日本" FROM t WHERE "select" = 15 AND P::VARCHAR = '1'"""
    assert compared.kept(by_two) == (1,)


PATHS = (
    "plain.parquet",
    "with space.parquet",
    "quo'te.parquet",
    'dou"ble.parquet',
    "br[a].parquet",
    "bra.parquet",
    "st*r.parquet",
    "qu?.parquet",
    "per%20cent.parquet",
    "per cent.parquet",
    "ha#sh.parquet",
    "ünïcödé.parquet",
    "cur{l}y.parquet",
    "do$llar.parquet",
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("folder", ["plain", "it's [a] *tree*"])
def test_names_of_files(tmp_path: Path, folder: str) -> None:
    root = write_tree(tmp_path / folder, {name: f"SELECT {n} AS n" for n, name in enumerate(PATHS)})
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    for number in range(len(PATHS)):
        assert answer(pruned, f"SELECT n FROM t WHERE n = {number}") == [(number,)], PATHS[number]
        assert pruned.last_plans[-1].kept == 1
    assert answer(pruned, "SELECT n FROM t") == sorted([(n,) for n in range(len(PATHS))], key=repr)


PARTITIONS = {
    "k=a%20b": "a b",
    "k=a+b": "a+b",
    "k=a%2Fb": "a/b",
    "k=x%3Dy": "x=y",
    "k=%252F": "%2F",
    "k=it's": "it's",
    "k=01": "01",
    "k=1e3": "1e3",
    "k=true": "true",
    "k=__HIVE_DEFAULT_PARTITION__": None,
}


@pytest.mark.sampled(2)
def test_partition_values_are_those_of_the_snapshot(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path / "parts", {f"{folder}/f.parquet": f"SELECT {n} AS n" for n, folder in enumerate(PARTITIONS)}
    )
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    expected = sorted(((n, value) for n, value in enumerate(PARTITIONS.values())), key=repr)
    assert answer(pruned, "SELECT n, k FROM t") == expected
    for number, value in enumerate(PARTITIONS.values()):
        condition = "k IS NULL" if value is None else "k = '" + value.replace("'", "''") + "'"
        assert answer(pruned, f"SELECT n, k FROM t WHERE {condition}") == [(number, value)]
        assert pruned.last_plans[-1].kept == 1


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("values", "data_type", "condition", "kept"),
    [
        (("2024-01-01", "2024-02-01"), "DATE", "k > '2024-01-15'", 1),
        (("1", "20"), "BIGINT", "k > 3", 1),
        (("1.5", "20.25"), "DOUBLE", "k > 3", 1),
    ],
)
def test_typed_partition_values(
    tmp_path: Path, values: tuple[str, str], data_type: str, condition: str, kept: int
) -> None:
    root = write_tree(tmp_path / "typed", {f"k={value}/f.parquet": "SELECT 1 AS n" for value in values})
    table = indexed(root)
    pruned = pruner_duckdb.connect({"t": table})
    shown = dict(types(pruned, "SELECT * FROM t"))["k"]
    assert shown in (data_type, "VARCHAR")
    if shown == data_type:
        assert len(answer(pruned, f"SELECT k FROM t WHERE {condition}")) == kept
        assert pruned.last_plans[-1].kept == kept


@pytest.mark.sampled(2)
def test_a_column_both_in_the_path_and_in_the_file(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path / "both",
        {"k=1/f.parquet": "SELECT 1 AS n, 9 AS k", "k=2/f.parquet": "SELECT 2 AS n, 9 AS k"},
    )
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    everything = answer(pruned, "SELECT n, k::VARCHAR FROM t")
    assert everything == [(1, "1"), (2, "2")]
    for key in ("1", "2", "9"):
        expected = [row for row in everything if row[1] == key]
        assert answer(pruned, f"SELECT n, k::VARCHAR FROM t WHERE k::VARCHAR = '{key}'") == expected


@pytest.fixture(scope="module")
def many_files(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """Ninety files in five partitions, pruned and by the oracle."""
    files = {f"k=v{n % 5}/f{n}.parquet": f"SELECT {n} AS n" for n in range(90)}
    root = write_tree(tmp_path_factory.mktemp("many") / "many", files)
    return Compared(pruner_duckdb.connect({"t": indexed(root)}), oracle({"t": root}))


@pytest.mark.sampled(16)
@pytest.mark.parametrize("columns", ["n, k", "count(*), max(k)", "*", "t.k", "sum(n)"])
def test_partition_values_of_many_files(many_files: Compared, columns: str) -> None:
    """Above a certain number of files the values are read beside the scan instead of from a constant list."""
    compared = many_files
    assert compared.kept(f"SELECT {columns} FROM t WHERE n >= 5") == (85,)
    assert compared.kept(f"SELECT {columns} FROM t WHERE n < 70") == (70,)
    assert compared.kept(f"SELECT {columns} FROM t WHERE n < 80 AND k <> 'v3'") == (64,)


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    "folders",
    [
        ("k=x=y", "k=z=w"),
        ("k=a?b", "k=c?d"),
        ("k==x", "k==y"),
        ("k=a=b/m=p", "k=c=d/m=q"),
        ("a?k=1", "a?k=2"),
    ],
)
@pytest.mark.parametrize("own", ["", ", 'v' || {} AS k"])
def test_folders_that_duckdb_takes_for_no_partition(
    tmp_path: Path, folders: tuple[str, str], own: str
) -> None:
    """With a second `=` or a `?` the value is no column, and a column of that name is the file's."""
    root = write_tree(
        tmp_path / "t",
        {f"{folder}/f.parquet": f"SELECT {n} AS id{own.format(n)}" for n, folder in enumerate(folders)},
    )
    pruned, full = pruner_duckdb.connect({"t": indexed(root)}), oracle({"t": root})
    assert [name for name, _ in types(pruned, "SELECT * FROM t")] == full.table("t").columns
    assert answer(pruned, "SELECT * FROM t") == answer(full, "SELECT * FROM t")
    assert answer(pruned, "SELECT id FROM t WHERE id = 1") == [(1,)]
    assert pruned.last_plans[-1].kept == 1
    if own:
        for value in ("v1", "x=y", "1"):
            where = f"WHERE k = '{value}'"
            assert answer(pruned, f"SELECT id FROM t {where}") == answer(full, f"SELECT id FROM t {where}")
            assert pruned.last_plans[-1].kept <= 2
    else:
        with pytest.raises(duckdb.BinderException, match='"k" not found'):
            pruned.execute("SELECT k FROM t")
