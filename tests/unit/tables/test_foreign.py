"""Tables of other formats, as root, parent and child: not all of their files are data (rule R8, trap D8)."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import TableError
from pruner.storage.objects import ObjectStore
from pruner.storage.opening import open_store
from pruner.tables.listing import foreign
from pruner.tables.listing.foreign import MOST_ABOVE
from tests.support.foreign_tables import FOREIGN_TABLES, ForeignTable
from tests.support.parquet.tables import write_file, write_tree

Medium = Literal["disk", "store"]
KINDS = pytest.mark.parametrize("kind", FOREIGN_TABLES)
MEDIA = pytest.mark.parametrize("medium", ["disk", "store"])


def content(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns or {"x": [1]}), sink)
    return sink.getvalue()


class Lake:
    """A folder on disk or in a store, into which files are put."""

    def __init__(self, medium: Medium, folder: Path) -> None:
        self.root = str(folder) if medium == "disk" else f"memory://{folder.name}/deep/lake"
        self._store = open_store(self.root)

    def put(self, path: str, data: bytes | None = None) -> None:
        self._store.put_new(path, content() if data is None else data)

    def put_table(self, at: str, table: ForeignTable) -> None:
        for number, path in enumerate(table.data):
            self.put(f"{at}/{path}", content(id=[1], v=[number]))
        for path, text in table.beside.items():
            self.put(f"{at}/{path}", text.encode())

    def place(self, path: str) -> str:
        return f"{self.root}/{path}"

    def refusal(self, *paths: str, **options: Any) -> str:
        """The refusal shown to the user, at the latest by the first plan."""
        with pytest.raises(TableError) as caught:
            self.open(*paths, **options).plan("id = 1")
        assert "\n" not in str(caught.value)
        return str(caught.value)

    def open(self, *paths: str, **options: Any) -> pruner.Table:
        places = [self.place(path) for path in paths]
        return pruner.open_table(places if len(places) > 1 else places[0], **options)


@pytest.fixture
def lake(tmp_path: Path, medium: Medium) -> Lake:
    return Lake(medium, tmp_path / "lake" if medium == "disk" else tmp_path)


@pytest.mark.sampled(2)
@KINDS
@MEDIA
def test_d8_no_folder_of_another_formats_table_is_opened(lake: Lake, kind: str):
    table = FOREIGN_TABLES[kind]
    lake.put_table("t", table)
    told = lake.refusal("t")
    if table.is_read:
        assert told.startswith(f"{lake.place('t')} is {table.what} whose ")
    else:
        assert f"{lake.place('t')} is {table.what} (" in told
        assert "whose files are not all part of the data" in told
    for folder in table.folders:
        told = lake.refusal(f"t/{folder}")
        assert f"{lake.place(f't/{folder}')} is a folder inside {table.name} {lake.place('t')}, whose" in told
        advice = "open that table by its own root" if table.is_read else "read it with "
        assert told.rpartition(": ")[2].startswith(advice)
        assert lake.refusal(f"t/{folder}/") == told


@pytest.mark.sampled(4)
@KINDS
@MEDIA
@pytest.mark.parametrize("files", [None, "immutable"])
def test_d8_a_folder_that_holds_one_is_not_opened(lake: Lake, kind: str, files: str | None):
    lake.put("a.parquet")
    lake.put("k=1/b.parquet")
    lake.put_table("k=2/deeper/t", FOREIGN_TABLES[kind])
    assert f"{lake.place('k=2/deeper/t')} is {FOREIGN_TABLES[kind].what}" in lake.refusal("", files=files)
    assert lake.open("k=1").plan("x = 1").kept == 1


@pytest.mark.sampled(2)
@KINDS
@MEDIA
def test_d8_each_of_several_roots_is_looked_at(lake: Lake, kind: str):
    lake.put("plain/id.parquet", content(id=[1]))
    lake.put_table("t", FOREIGN_TABLES[kind])
    inner = f"t/{FOREIGN_TABLES[kind].folders[-1]}"
    assert f"{lake.place(inner)} is a folder inside" in lake.refusal("plain", inner)
    assert f"{lake.place('t')} is " in lake.refusal("plain", "t")


@pytest.mark.sampled(4)
@KINDS
@MEDIA
@pytest.mark.parametrize("files", [None, "immutable"])
def test_r8_a_table_that_becomes_another_formats_is_refused_at_the_next_look(
    lake: Lake, kind: str, files: str | None
):
    table = FOREIGN_TABLES[kind]
    for path in table.data:
        lake.put(f"t/{path}", content(id=[1]))
    opened = lake.open("t", files=files)
    assert opened.plan("id = 1").total == 2
    for path, text in table.beside.items():
        lake.put(f"t/{path}", text.encode())
    with pytest.raises(TableError, match=f"is {table.what}"):
        opened.plan("id = 1")
    with pytest.raises(TableError, match=f"is {table.what}"):
        opened.refresh()


@pytest.mark.sampled(4)
@KINDS
@MEDIA
@pytest.mark.parametrize("quiet", [False, True])
def test_r8_a_folder_whose_parent_becomes_another_formats_is_refused(
    lake: Lake, kind: str, medium: Medium, quiet: bool, monkeypatch: pytest.MonkeyPatch
):
    """Also if the folders above were unchanged for so long that only their times are checked."""
    if quiet:
        monkeypatch.setattr(foreign, "_GRANULARITY_NS", -1)
    table = FOREIGN_TABLES[kind]
    lake.put(f"t/{table.data[0]}", content(id=[1]))
    opened = lake.open(f"t/{table.folders[0]}")
    for _ in range(3):
        assert opened.plan("id = 1").total == 1
    for path, text in table.beside.items():
        lake.put(f"t/{path}", text.encode())
    if medium == "disk":
        with pytest.raises(TableError, match="is a folder inside"):
            opened.plan("id = 1")
    with pytest.raises(TableError, match="is a folder inside"):
        opened.refresh()
    with pytest.raises(TableError, match="is a folder inside"):
        opened.plan("id = 1")


@pytest.mark.sampled(6)
@MEDIA
@pytest.mark.parametrize(
    "files",
    [
        ("metadata/a.parquet", "metadata/b.json"),
        ("metadata=1/a.parquet",),
        ("snapshot=1/schema=2/a.parquet",),
        ("schema/schema-a.parquet", "snapshot/snapshot-1.parquet"),
        ("schema/a.parquet", "snapshot/b.parquet", "manifest/c.parquet"),
        ("schema/schema-0", "data/a.parquet"),
        ("snapshot/snapshot-1", "data/a.parquet"),
        ("schema/schema-0", "deeper/snapshot/snapshot-1"),
        ("bucket-0/a.parquet", "bucket-1/b.parquet"),
        ("data/k=1/a.parquet",),
        ("delta_log/a.parquet", "spark_metadata/a.parquet"),
        ("version-hint.text", "a.metadata.json", "a.parquet"),
        ("2024/01/01/x.parquet", "2024/01/02/x.parquet"),
        ("base_0000001.parquet", "delta_0000001_0000001.parquet"),
        ("base/a.parquet", "base_/b.parquet", "base_1a/c.parquet", "base_0=1/d.parquet", "Base_1/e.parquet"),
        (
            "delta_2024/a.parquet",
            "delta_1_2_3_4/b.parquet",
            "my_delta_1_2/c.parquet",
            "delta_1_2_v/d.parquet",
        ),
        ("delete_delta/a.parquet", "delete_base_1/b.parquet", "HIVE_UNION_SUBDIR_1/c.parquet"),
    ],
)
def test_folders_of_the_user_with_such_names_are_data(lake: Lake, files: tuple[str, ...]):
    for path in files:
        lake.put(f"t/{path}", b"{}" if path.endswith((".json", ".text")) else content(x=[1]))
    parquet = [path for path in files if not path.endswith((".json", ".text"))]
    assert lake.open("t").plan("x = 1").total == len(parquet)
    for folder in {path.rpartition("/")[0] for path in parquet} - {""}:
        assert lake.open(f"t/{folder}").plan("x = 1").total >= 1


@MEDIA
def test_a_streams_output_is_its_partitions_and_not_what_else_lies_beside(lake: Lake):
    lake.put_table("t", FOREIGN_TABLES["stream"])
    lake.put("t/other/a.parquet")
    assert lake.open("t/other").plan("x = 1").total == 1
    assert "is a folder inside the output of a Spark streaming query, " in lake.refusal("t/k=1")


@MEDIA
def test_the_log_of_a_delta_table_is_no_table(lake: Lake):
    lake.put("t/a.parquet")
    lake.put("t/_delta_log/00000000000000000010.checkpoint.parquet", content(id=[1]))
    assert f"is a folder inside the Delta table {lake.place('t')}" in lake.refusal("t/_delta_log")


ACID_FOLDERS = ("base_0000001", "delta_0000002_0000002_0000", "delta_0000002_0000004", "base_7_v0000031")


@pytest.mark.sampled(8)
@MEDIA
@pytest.mark.parametrize("partition", ["", "k=1/", "k=1/j=2/"])
def test_d8_no_folder_of_a_hive_acid_table_is_opened(lake: Lake, partition: str):
    for folder in (*ACID_FOLDERS, "delete_delta_0000003_0000003_0000"):
        lake.put(f"{folder}/t/{partition}{folder}/bucket_00000")
        told = lake.refusal(f"{folder}/t")
        place = lake.place(f"{folder}/t/{partition}").rstrip("/")
        assert told.startswith(
            f"{place} is a folder of a Hive ACID table ({folder} is there), whose files are"
        )
        assert told.rpartition(": ")[2].startswith("read it with ")
        assert f"{place} is a folder of a Hive ACID table" in lake.refusal(folder)
        for inside in (f"{partition}{folder}", f"{partition}{folder}/"):
            told = lake.refusal(f"{folder}/t/{inside}")
            assert f"is a folder inside the Hive ACID table {place}, whose files are not all" in told
        lake.put(f"{folder}/u/{partition}{folder}/HIVE_UNION_SUBDIR_1/000000_0")
        told = lake.refusal(f"{folder}/u/{partition}{folder}/HIVE_UNION_SUBDIR_1")
        assert (
            f"is a folder inside the Hive ACID table {lake.place(f'{folder}/u/{partition}')}".rstrip("/")
            in told
        )
        # The folder above only has such a name, and holds a lake.
        lake.put(f"{folder}/lake/a.parquet")
        assert lake.open(f"{folder}/lake").plan("x = 1").total == 1


@MEDIA
@pytest.mark.parametrize("files", [None, "immutable"])
def test_r8_a_hive_table_that_becomes_acid_is_refused_at_the_next_look(lake: Lake, files: str | None):
    lake.put("t/k=1/000000_0", content(id=[1]))
    opened = lake.open("t", files=files)
    assert opened.plan("id = 1").total == 1
    lake.put("t/k=1/delta_0000001_0000001_0000/bucket_00000", content(id=[2]))
    with pytest.raises(TableError, match="is a folder of a Hive ACID table"):
        opened.plan("id = 1")
    with pytest.raises(TableError, match="is a folder of a Hive ACID table"):
        opened.refresh()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("files", [None, "immutable"])
@pytest.mark.parametrize("kind", [*FOREIGN_TABLES, "hudi", "acid"])
def test_d8_no_link_to_a_file_of_another_formats_table_is_read(tmp_path: Path, kind: str, files: str | None):
    lake = Lake("disk", tmp_path)
    if kind in FOREIGN_TABLES:
        table = FOREIGN_TABLES[kind]
        lake.put_table("t", table)
        file, name = tmp_path / "t" / table.data[1], table.name
    else:
        file, name = {
            "hudi": (tmp_path / "t" / "k=1" / "f_1-0-1_1.parquet", "the Hudi table"),
            "acid": (tmp_path / "t" / "base_1" / "bucket_00000", "the Hive ACID table"),
        }[kind]
        lake.put(str(file.relative_to(tmp_path)))
        lake.put("t/.hoodie/hoodie.properties" if kind == "hudi" else "t/base_1/_metadata_acid", b"")
    lake.put("plain/k=1/a.parquet", content(id=[1]))
    opened = lake.open("plain", files=files)
    assert opened.plan("id = 1").total == 1
    over = tmp_path / "over.parquet"
    over.symlink_to(file)
    link = tmp_path / "plain" / "k=1" / "b.parquet"
    link.symlink_to(over)
    told = (
        f"cannot list {tmp_path / 'plain'}: the link {link} leads into another table: "
        f"{file} is a file inside {name} {tmp_path / 't'}"
    )
    assert lake.refusal("plain", files=files).startswith(told)
    for look in (lambda: opened.plan("id = 1"), opened.refresh):
        with pytest.raises(TableError) as caught:
            look()
        assert str(caught.value).startswith(told)


def test_links_to_files_that_are_nobody_elses_are_read(tmp_path: Path):
    lake = Lake("disk", tmp_path)
    lake.put_table("t/beside", FOREIGN_TABLES["delta"])
    for number in range(3):
        lake.put(f"t/pool/{number}.parquet", content(id=[number]))
        (tmp_path / "plain" / "k=1").mkdir(parents=True, exist_ok=True)
        (tmp_path / "plain" / "k=1" / f"{number}.parquet").symlink_to(
            tmp_path / "t" / "pool" / f"{number}.parquet"
        )
    assert lake.open("plain").plan("id = 1").total == 3


def test_an_iceberg_table_behind_a_page_of_manifests(tmp_path: Path):
    """Versions named `v…` sort after all manifests, beyond a first page; a hint names them."""
    lake = Lake("store", tmp_path)
    lake.put("t/data/a.parquet")
    for number in range(1000):
        lake.put(f"t/metadata/{number:04}-m0.avro", b"Obj")
    lake.put("t/metadata/v1.metadata.json", b"{}")
    lake.put("t/metadata/version-hint.text", b"1")
    assert f"is a folder inside the Iceberg table {lake.place('t')}" in lake.refusal("t/data")


@pytest.mark.parametrize("kind", FOREIGN_TABLES)
def test_links_into_another_formats_table(tmp_path: Path, kind: str):
    lake = Lake("disk", tmp_path)
    lake.put_table("t", FOREIGN_TABLES[kind])
    inner = tmp_path / "t" / FOREIGN_TABLES[kind].folders[-1]
    (tmp_path / "link").symlink_to(inner)
    assert f"inside {FOREIGN_TABLES[kind].name} {tmp_path / 't'}" in lake.refusal("link")
    write_tree(tmp_path / "plain", "a.parquet")
    (tmp_path / "plain" / "linked").symlink_to(inner)
    told = lake.refusal("plain")
    assert told.startswith(
        f"cannot list {tmp_path / 'plain'}: the link {tmp_path / 'plain' / 'linked'} "
        f"leads into another table: {inner} is"
    )
    assert f"inside {FOREIGN_TABLES[kind].name} {tmp_path / 't'}" in told


def test_who_may_not_look_above_opens_what_lies_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lake = Lake("store", tmp_path)
    lake.put("t/a.parquet")
    listed = ObjectStore.some

    def some(store: ObjectStore, prefix: str = "") -> Iterator[Any]:
        if prefix:
            raise pruner.StorageError("the store refuses to list it")
        return listed(store)

    monkeypatch.setattr(ObjectStore, "some", some)
    assert lake.open("t").plan("x = 1").total == 1


def test_checking_the_folders_above_costs_a_few_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    lake = Lake("store", tmp_path)  # memory://NAME/deep/lake
    lake.put("t/k=1/a.parquet")
    asked: Counter[str] = Counter()
    for name in ("info", "some"):
        plain = getattr(ObjectStore, name)

        def counting(store: ObjectStore, *path: str, name: str = name, plain: Any = plain) -> Any:
            asked[f"{name} {store.uri.removeprefix(lake.root)}/{'/'.join(path)}"] += 1
            return plain(store, *path)

        monkeypatch.setattr(ObjectStore, name, counting)
    opened = lake.open("t")
    above = [lake.root.removesuffix(end) for end in ("", "/lake", "/deep/lake")]
    wanted = {
        f"{ask} {place.removeprefix(lake.root)}/{sign}": 1
        for place in above
        for ask, sign in (("info", ".hoodie/hoodie.properties"), ("some", "_delta_log"), ("some", "metadata"))
    }
    own = {
        "info /t/.hoodie/hoodie.properties": 1,
        "some /t/_delta_log": 1,
        "some /t/metadata": 1,
        "some /t/": 1,
    }
    assert asked == wanted | own
    asked.clear()
    assert opened.plan("x = 1").total == 1
    lake.put("t/k=1/b.parquet")
    assert opened.plan("x = 1").total == 2
    assert not [each for each in asked if "_delta_log" in each], "a look at a store asks for the table alone"


def test_a_limited_number_of_folders_above_is_checked(tmp_path: Path):
    deep = "/".join(["d"] * MOST_ABOVE)
    write_file(tmp_path / deep / "t" / "a.parquet")
    (tmp_path / "d" / "_delta_log").mkdir()
    with pytest.raises(TableError, match=f"inside the Delta table {tmp_path / 'd'},"):
        pruner.open_table(tmp_path / deep / "t")
