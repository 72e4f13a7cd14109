"""Which format a path is opened as, and what is refused by name (rule R8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pruner.errors import PrunerError, StorageError, TableError
from pruner.formats import detect
from pruner.formats.detect import open_table_source
from pruner.formats.parquet import ParquetFormat
from pruner.storage.opening import open_store
from tests.support.parquet.tables import write_file, write_tree

PROPERTIES = "hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version={version}\n"


def hudi_folder(root: Path, version: int | str = 9, more: str = "") -> Path:
    """A folder that claims to be a Hudi table, and has no commits."""
    (root / ".hoodie" / "timeline").mkdir(parents=True)
    (root / ".hoodie" / "hoodie.properties").write_text(PROPERTIES.format(version=version) + more)
    return root


def refusal(*uris: object, format: str | None = None) -> str:  # noqa: A002
    with pytest.raises(PrunerError) as caught:
        open_table_source([str(uri) for uri in uris], format=format)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_tree_is_parquet_and_a_timeline_is_hudi(tmp_path: Path):
    tree = open_table_source([str(write_tree(tmp_path / "tree", "k=1/a.parquet"))])
    assert (tree.format, tree.root, tree.roots) == (
        "parquet",
        str(tmp_path / "tree"),
        (str(tmp_path / "tree"),),
    )
    assert open_table_source([str(hudi_folder(tmp_path / "hudi"))]).format == "hudi"


def test_uris_paths_and_slashes_name_the_same_root(tmp_path: Path):
    root = write_tree(tmp_path / "a b", "a.parquet")
    assert {open_table_source([uri]).root for uri in (str(root), f"{root}/", root.as_uri())} == {str(root)}


def test_paths_that_are_not_tables(tmp_path: Path):
    assert refusal(tmp_path / "gone") == f"no such path: {tmp_path / 'gone'}"
    for scheme in ("s3", "s3a", "gs", "az", "abfs", "abfss"):
        typed = tmp_path / f"{scheme}:" / "lake" / "t"
        assert refusal(typed) == f"no such path: {typed}: did you mean {scheme}://lake/t?"
    file = write_file(tmp_path / "file" / "a.parquet")
    assert refusal(file) == f"{file} is a file: give the table's root, the folder that holds all of its files"
    (tmp_path / "empty").mkdir()
    assert "is not a table: there are no Parquet files in it" in refusal(tmp_path / "empty")
    (tmp_path / "empty" / "a.parquet").touch()
    assert "is not a table: there are no Parquet files in it" in refusal(tmp_path / "empty")
    with pytest.raises(TableError, match="needs at least one root"):
        open_table_source([])


def test_overlapping_roots(tmp_path: Path):
    root = write_tree(tmp_path / "t", "k=1/a.parquet")
    assert "the roots overlap" in refusal(root, root / "k=1")
    assert "the roots overlap" in refusal(root, f"{root}/")
    other = write_tree(tmp_path / "t2", "a.parquet")
    assert open_table_source([str(root), str(other)]).roots == (str(root), str(other))


def test_formats_can_be_demanded(tmp_path: Path):
    tree, table = write_tree(tmp_path / "tree", "a.parquet"), hudi_folder(tmp_path / "hudi")
    assert open_table_source([str(tree)], format="parquet").format == "parquet"
    assert "is not a Hudi table" in refusal(tree, format="hudi")
    assert "is a Hudi table" in refusal(table, format="parquet")
    assert "unknown format 'csv'" in refusal(tree, format="csv")


@pytest.mark.parametrize("version", [0, 1, 5, 7, 10, "x"])
def test_hudi_versions_that_are_not_read(tmp_path: Path, version: int | str):
    text = refusal(hudi_folder(tmp_path / "t", version))
    assert f"is a Hudi table of version {version}: pruner reads versions 6, 8, 9" in text


def test_hudi_tables_of_other_kinds(tmp_path: Path):
    orc = hudi_folder(tmp_path / "orc", more="hoodie.table.base.file.format=ORC\n")
    assert "base files of format ORC" in refusal(orc)
    bootstrapped = hudi_folder(tmp_path / "boot", more="hoodie.bootstrap.base.path=s3\\://lake/old\n")
    assert "bootstrapped" in refusal(bootstrapped)
    escaping = hudi_folder(tmp_path / "dots", more="hoodie.timeline.path=../../other\n")
    assert "is outside of the table" in refusal(escaping)


def test_the_inside_of_a_hudi_table(tmp_path: Path):
    table = hudi_folder(tmp_path / "t")
    write_tree(table, "city=rome/a.parquet", ".hoodie/metadata/files/f.parquet")
    hudi_folder(table / ".hoodie" / "metadata")
    text = refusal(table / "city=rome")
    assert (
        text
        == f"{table / 'city=rome'} is a folder inside the Hudi table {table}: open the table's root instead"
    )
    assert "is internal to a Hudi table" in refusal(table / ".hoodie")
    assert "is internal to a Hudi table" in refusal(table / ".hoodie" / "timeline")
    assert "is internal to a Hudi table" in refusal(table / ".hoodie" / "metadata")


def test_a_link_into_a_hudi_table(tmp_path: Path):
    table = hudi_folder(tmp_path / "t")
    write_tree(table, "city=rome/a.parquet")
    (tmp_path / "link").symlink_to(table / "city=rome")
    assert f"inside the Hudi table {table}" in refusal(tmp_path / "link")


def test_hudi_has_one_root(tmp_path: Path):
    table, tree = hudi_folder(tmp_path / "t"), write_tree(tmp_path / "tree", "a.parquet")
    assert "is a Hudi table, which has one root" in refusal(tree, table)


@pytest.mark.parametrize(
    ("marker", "what"),
    [
        ("_delta_log/0.json", "is a Delta table"),
        ("_spark_metadata/0", "is the output of a Spark streaming query"),
        ("metadata/v1.metadata.json", "is an Iceberg table"),
    ],
)
def test_foreign_formats(tmp_path: Path, marker: str, what: str):
    write_tree(tmp_path / "t", "data/a.parquet")
    file = tmp_path / "t" / marker
    file.parent.mkdir()
    file.write_text("{}")
    assert what in refusal(tmp_path / "t")


def test_tables_of_an_object_store(tmp_path: Path):
    base = f"memory://{tmp_path.name}"
    data = write_file(tmp_path / "a.parquet").read_bytes()
    tree, table = open_store(f"{base}/lake/tree"), open_store(f"{base}/lake/table")
    tree.put_new("k=1/a.parquet", data)
    table.put_new(".hoodie/hoodie.properties", PROPERTIES.format(version=9).encode())
    table.put_new("city=rome/a.parquet", data)
    source = open_table_source([f"{base}/lake/tree/"])
    snapshot = source.snapshot()
    assert (source.format, source.root) == ("parquet", f"{base}/lake/tree")
    assert [entry.base_file for entry in snapshot.slices] == [f"{base}/lake/tree/k=1/a.parquet"]
    assert snapshot.schema.find(("x",)).type == snapshot.schema.find(("k",)).type
    assert source.snapshot(snapshot) is snapshot
    assert open_table_source([f"{base}/lake/table"]).format == "hudi"
    assert "is a folder inside the Hudi table" in refusal(f"{base}/lake/table/city=rome")
    assert refusal(f"{base}/lake/gone").endswith("and metadata")
    for name in ("gone.parquet", "gone.parq"):
        assert refusal(f"{base}/lake/{name}").endswith(
            "If it is a file, give the folder that holds all files of the table"
        )
    assert "is a Hudi table" in refusal(f"{base}/lake")


def test_uris_that_are_not_understood(tmp_path: Path):
    with pytest.raises(StorageError, match="must not hold '.' or '..'"):
        open_table_source(["s3://lake/a/../b"])
    with pytest.raises(StorageError, match="scheme ftp:// is not supported"):
        open_table_source(["ftp://lake/a"])


class Claiming:
    """A table format of another distribution that answers and opens as configured."""

    title = "a made-up table"
    several_roots = False

    def __init__(self, name: str, answer: object, source: object = None) -> None:
        self.name = name
        self._answer, self._source = answer, source

    def is_root(self, root: str, storage_options: object) -> object:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def open(self, roots: object, storage_options: object, **options: object) -> object:
        if isinstance(self._source, Exception):
            raise self._source
        return self._source

    def own_indexes(self, source: object, snapshot: object) -> None:
        return None


@pytest.mark.parametrize(
    ("formats", "sentence"),
    [
        ([Claiming("odd", ValueError("boom"))], "table format 'odd' failed over {root}: boom"),
        ([Claiming("odd", None)], "table format 'odd' says neither True nor False of {root}: None"),
        ([Claiming("odd", True)], "table format 'odd' opens {root} as None"),
        ([Claiming("odd", True, KeyError("x"))], "table format 'odd' failed over {root}: 'x'"),
        ([Claiming("odd", True, TableError("no such thing"))], "no such thing"),
        (
            [Claiming("odd", True), Claiming("even", True)],
            "{root} looks like a made-up table and a made-up table: keep tables of several formats apart",
        ),
    ],
)
def test_a_format_of_another_distribution_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, formats: list[Claiming], sentence: str
) -> None:
    root = write_tree(tmp_path / "t", "a.parquet")
    known = {each.name: each for each in formats}
    monkeypatch.setattr(detect, "format_names", lambda: (*known, "parquet"))
    monkeypatch.setattr(detect, "table_format", lambda name: known.get(name) or ParquetFormat())
    assert refusal(root) == sentence.format(root=root)


def test_a_hudi_table_with_a_log_of_deltas_is_opened_as_what_is_asked_for(tmp_path: Path):
    """Apache XTable writes such logs beside Hudi's."""
    table = hudi_folder(tmp_path / "t")
    log = table / "_delta_log"
    log.mkdir()
    schema = '{\\"type\\":\\"struct\\",\\"fields\\":[]}'
    (log / f"{0:020d}.json").write_text(
        '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}\n'
        f'{{"metaData":{{"id":"x","schemaString":"{schema}","partitionColumns":[],"configuration":{{}}}}}}\n'
    )
    assert open_table_source([str(table)]).format == "hudi"
    assert open_table_source([str(table)], format="delta").format == "delta"
