"""Stores: what every one of them guarantees, and what is specific to the local disk and to object stores."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pruner.errors import StorageError
from pruner.storage.opening import normalize_uri, open_store
from pruner.storage.store import NotFoundError, Store
from tests.support.stores.object_store import KINDS, shared_server
from tests.unit.metadata.s3_server import serve


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "minio":
        yield open_store(f"s3://lake/{uuid.uuid4()}/some folder/t.pruner", shared_server())
    elif request.param == "s3":
        with serve() as (options, _):
            yield open_store("s3://bucket/some folder/t.pruner", options)
    else:
        yield open_store(
            str(tmp_path / "a%20b ü") if request.param == "local" else f"memory://{uuid.uuid4()}/x"
        )


def test_put_if_absent_creates_once(store: Store) -> None:
    assert store.put_if_absent("log/1.json", b"first")
    assert not store.put_if_absent("log/1.json", b"second")
    assert store.get("log/1.json", 100) == b"first"


def test_of_many_writers_exactly_one_wins(store: Store) -> None:
    names = [f"log/{number}.json" for number in range(6)]
    wins: list[tuple[str, bytes]] = []

    def write(writer: int) -> None:
        data = b"w%d" % writer * 1000
        wins.extend((name, data) for name in names if store.put_if_absent(name, data))

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(name for name, _ in wins) == names
    assert {name: store.get(name, 10_000) for name in names} == dict(wins)


def test_reading_what_is_not_there(store: Store) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        store.get("log/1.json", 10)
    with pytest.raises(NotFoundError, match="does not exist"):
        store.get_range("log/1.json", 0, 1)
    assert store.info("log/1.json") is None
    assert not store.exists("log")
    assert store.list() == store.list("log") == []


def test_reads_are_bounded(store: Store) -> None:
    store.put_new("seg/a.pidx", b"0123456789")
    assert store.get("seg/a.pidx", 10) == b"0123456789"
    with pytest.raises(StorageError, match="larger than the 9 bytes"):
        store.get("seg/a.pidx", 9)
    assert store.get_ranges("seg/a.pidx", [(2, 3), (9, 1)]) == [b"234", b"9"]
    for start, length in ((8, 3), (10, 1), (50, 2)):
        with pytest.raises(StorageError, match=r"shorter than requested|cannot read"):
            store.get_range("seg/a.pidx", start, length)


def test_listing(store: Store) -> None:
    for name in ("log/1", "log/2", "log/3", "log2/1", "a/b c#1", "a/d%2F", "log/4", "log/5"):
        store.put_new(name, name.encode())
    assert [info.path for info in store.list("log", after="log/2")] == ["log/3", "log/4", "log/5"]
    assert [info.path for info in store.list()] == sorted(
        ["log/1", "log/2", "log/3", "log2/1", "a/b c#1", "a/d%2F", "log/4", "log/5"]
    )
    info = store.info("a/d%2F")
    assert info is not None
    assert info == store.list("a")[1]
    assert (info.size, store.get("a/d%2F", 100)) == (6, b"a/d%2F")


def test_what_is_right_below_a_folder(store: Store) -> None:
    assert store.level() == ([], [])
    for path in ("a/b/c", "a/b/d", "a/e", "a b/ü/x", "a%20b/x", "a-b/x", "z"):
        store.put_new(path, b"")

    def level(prefix: str = "") -> tuple[list[str], list[str]]:
        folders, objects = store.level(prefix)
        return sorted(folders), sorted(objects)

    assert level() == (["a", "a b", "a%20b", "a-b"], ["z"])
    assert level("a") == (["b"], ["e"])
    assert level("a/b") == ([], ["c", "d"])
    assert level("a b") == (["ü"], [])
    assert level("nowhere") == ([], [])
    for folder in ("", "a", "a b", "a b/ü"):
        assert level(folder) == tuple(map(sorted, Store.level(store, folder)))


def test_deleting(store: Store) -> None:
    for name in ("log/1", "log/2", "x/y/z"):
        store.put_new(name, b"")
    store.delete(["log/1", "never/there", "x/y/z"])
    store.remove_empty_folders()
    assert [info.path for info in store.list()] == ["log/2"]
    store.delete(["log/1"])
    store.delete([])
    assert store.exists("log/2")


def test_looking_up_some_of_many(store: Store) -> None:
    for name in ("a/1", "a/2", "a/3", "a/4", "b/1"):
        store.put_new(name, name.encode())
    for asked in ([], ["b/1"], ["a/2", "b/1", "a/9"], ["a/1", "a/2", "a/4", "a/9", "b/1", "c/1"]):
        there = {name for name in asked if not name.endswith("9") and not name.startswith("c")}
        assert store.infos(asked) == {name: store.info(name) for name in there}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/", "a\0b"])
def test_no_path_leaves_the_root(store: Store, path: str) -> None:
    uses: list[Callable[[], object]] = [
        lambda: store.get(path, 1),
        lambda: store.put_if_absent(path, b""),
        lambda: store.put_new(path, b""),
        lambda: store.delete([path]),
        lambda: store.get_range(path, 0, 1),
        lambda: store.info(path),
    ]
    for use in uses:
        with pytest.raises(StorageError, match="not a path below the root"):
            use()


_PARTS = st.lists(
    st.sampled_from(["a", "b", "a b", "a.b", "a0", "log", "1", "z%", "#2"]), min_size=1, max_size=3
)


@pytest.mark.parametrize("local", [False, True])
@given(
    names=st.sets(_PARTS.map("/".join), max_size=8), folder=_PARTS.map("/".join), after=_PARTS.map("/".join)
)
def test_listing_is_that_of_a_sorted_set(
    tmp_path_factory: pytest.TempPathFactory, names: set[str], folder: str, after: str, local: bool
) -> None:
    place = f"memory://{uuid.uuid4()}/root"
    if local:
        # A file system cannot have a file and a folder of one name.
        names = {name for name in names if not any(other.startswith(f"{name}/") for other in names)}
        assume(not any(folder == name or folder.startswith(f"{name}/") for name in names))
        place = str(tmp_path_factory.mktemp("store"))
    store = open_store(place)
    for name in names:
        store.put_new(name, b"1")
    inside = sorted(name for name in names if name.startswith(folder + "/"))
    assert [info.path for info in store.list(folder)] == inside
    assert [info.path for info in store.list(folder, after=after)] == [
        name for name in inside if name > after
    ]


@pytest.mark.parametrize(
    ("given_uri", "normal"),
    [
        ("/lake/t/", "/lake/t"),
        ("/lake/x/../t", "/lake/t"),
        ("/lake/a%20b", "/lake/a%20b"),
        ("file:///lake/a%20b", "/lake/a b"),
        ("file:///lake/city=New%2520York", "/lake/city=New%20York"),
        ("file:/lake/t", "/lake/t"),
        ("file://localhost/lake/t", "/lake/t"),
        ("s3://b/x//y/", "s3://b/x/y"),
        ("s3a://b/a%20b", "s3://b/a%20b"),
        ("S3N://b", "s3://b"),
        ("gcs://b/x", "gs://b/x"),
        ("abfss://c@account.dfs.core.windows.net/x", "abfss://c@account.dfs.core.windows.net/x"),
        ("memory://m/", "memory://m"),
    ],
)
def test_normal_form_of_locations(given_uri: str, normal: str) -> None:
    assert normalize_uri(given_uri) == normal
    assert normalize_uri(normal) == normal


def test_relative_paths_start_in_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert normalize_uri("t") == str(tmp_path / "t")
    assert normalize_uri("a:b") == str(tmp_path / "a:b")


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("", "is not a location"),
        ("a\0b", "is not a location"),
        ("file://", "is not a location"),
        ("ftp://host/x", "ftp:// is not supported"),
        ("https://host/x?sig=hidden", "https:// is not supported"),
        ("file://other/x", "another host"),
        ("s3://key:hidden@bucket/x", "must not hold credentials"),
        ("az://container/x?sv=1&sig=hidden", "must not hold credentials"),
        ("s3:///x", "needs a bucket"),
        ("s3://b/../c", "must not hold '.' or '..'"),
    ],
)
def test_paths_that_are_not_locations(uri: str, says: str) -> None:
    with pytest.raises(StorageError, match=says) as caught:
        open_store(uri)
    assert "hidden" not in str(caught.value)


def test_local_files_are_on_disk_before_they_have_their_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    steps: list[str] = []
    fsync, link = os.fsync, os.link

    def note_fsync(file: int) -> None:
        steps.append("sync " + ("folder" if os.path.isdir(f"/proc/self/fd/{file}") else "file"))  # noqa: PTH112
        fsync(file)

    def note_link(source: Path, target: Path) -> None:
        steps.append("name")
        link(source, target)

    store = open_store(str(tmp_path / "t"))
    store.put_new("log/0", b"makes the folders")
    store.put_if_absent("log/1", b"makes the staging folder")
    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "link", note_link)
    store.put_if_absent("log/2", b"x")
    assert steps == ["sync file", "name", "sync folder"]
    steps.clear()
    store.put_new("log/3", b"x")
    assert steps == ["sync file", "sync folder"]
    assert [info.path for info in store.list()] == ["log/0", "log/1", "log/2", "log/3"]


def test_a_read_only_location_suggests_index_uri(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        place = "/sys/kernel/pruner"  # the kernel refuses even root here
    else:
        tmp_path.chmod(0o500)
        place = str(tmp_path / "t.pruner")
    for write in (open_store(place).put_if_absent, open_store(place).put_new):
        with pytest.raises(StorageError, match=r"cannot write below .*index_uri") as caught:
            write("log/1", b"x")
        assert caught.value.__suppress_context__
        assert "\n" not in str(caught.value)


def test_a_place_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    store = open_store(str(tmp_path / "file"))
    with pytest.raises(StorageError, match=r"cannot write .*index_uri"):
        store.put_if_absent("log/1", b"x")
    with pytest.raises(StorageError, match=r"cannot list .*index_uri"):
        store.list("log")
    assert store.info("log/1") is None


def test_local_listing_is_complete_or_fails(tmp_path: Path) -> None:
    for name in ("x#1", "~a", "a\nb", ".hidden", "b"):
        (tmp_path / name).write_text("x")
    (tmp_path / "linked").symlink_to(tmp_path / "b")
    names = ["x#1", "~a", "a\nb", ".hidden", "b", "linked"]
    assert [info.path for info in open_store(str(tmp_path)).list()] == sorted(names)
    (tmp_path / "round").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="leads into a folder above"):
        open_store(str(tmp_path)).list()
    (tmp_path / "round").unlink()
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff")).write_text("x")
    with pytest.raises(StorageError, match="not UTF-8"):
        open_store(str(tmp_path)).list()


def test_an_unreachable_store_gives_one_sentence_without_secrets() -> None:
    options = {
        "endpoint": "http://127.0.0.1:9",
        "region": "nowhere",
        "aws_access_key_id": "AKIAHIDDEN",
        "aws_secret_access_key": "hidden-secret",
    }
    # Without allow_http the client refuses at once instead of retrying.
    store = open_store("s3://bucket/x", options)
    with pytest.raises(StorageError) as caught:
        store.get("log/1", 10)
    message = str(caught.value)
    assert message.startswith("cannot read s3://bucket/x/log/1: ")
    assert "\n" not in message
    assert "hidden" not in message.lower()
    assert "hidden" not in repr(store).lower()
    assert caught.value.__suppress_context__


def test_wrong_options_are_named() -> None:
    with pytest.raises(StorageError, match="storage option 'no_such' does not exist for s3://"):
        open_store("s3://bucket", {"no_such": "hidden"})
    with pytest.raises(StorageError, match="cannot open az://c") as caught:
        open_store("az://c/x", {"account_name": "a", "account_key": "hidden!"})
    assert "hidden" not in str(caught.value)


def test_a_store_that_refuses_offers_index_uri() -> None:
    with serve() as (options, server):
        store = open_store("s3://bucket/x", options)
        server.failure = 403, "AccessDenied"
        with pytest.raises(StorageError, match=r"refuses to write .*index_uri"):
            store.put_if_absent("log/1", b"x")
