"""Change feeds: a check covers what events name and sees what a full listing sees; any doubt causes a full listing."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from random import Random
from unittest.mock import patch

import pytest

import pruner
from pruner.catalog.settings import ConfigError
from pruner.errors import TableError
from pruner.limits import FEED_FILE_BYTES, FEED_FILES, FEED_NAMES
from pruner.tables.feed.place import FeedSettings, add_event, announce
from pruner.tables.listing.files import CLOCK_TICK_NS, LocalLister, StoreLister
from pruner.tables.parquet.source import ParquetSource
from tests.support.foreign_tables import FOREIGN_TABLES
from tests.support.parquet.tables import names, slice_keys, write_file, write_tree
from tests.support.running.profiles import examples
from tests.support.stores.feeds import in_memory, listings, put, s3_event

TICK = 1.5 * CLOCK_TICK_NS / 1e9
HOUR = 3600.0


def followed(root: Path, confirm_after: float = HOUR) -> ParquetSource:
    """A source that has listed a tree once and follows a feed with one event from now on."""
    announce(f"{root}.feed", [str(root)], [])
    time.sleep(TICK)
    source = ParquetSource([str(root)], feed=FeedSettings(f"{root}.feed", confirm_after))
    source.snapshot()
    source.snapshot()
    return source


def test_a_check_asks_only_about_named_files(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "k=1/a.parquet", "k=2/b.parquet")
    source = followed(root)
    with listings(LocalLister) as whole:
        before = source.snapshot()
        assert source.snapshot(before) is before
        write_file(root / "k=1" / "c.parquet", x=[7])
        (root / "k=2" / "b.parquet").unlink()
        announce(f"{root}.feed", [str(root)], ["k=1/c.parquet", f"{root}/k=2/b.parquet"])
        assert names(source.snapshot()) == ["k=1/a.parquet", "k=1/c.parquet"]
    assert whole == []
    assert source.doubts() == ()


@pytest.mark.parametrize("confirm_after", [0.0, 0.2, HOUR])
def test_what_no_event_names_is_seen_when_a_whole_listing_confirms(
    tmp_path: Path, confirm_after: float
) -> None:
    """A lost notification causes a stale listing, for as long as the declaration says and no longer."""
    root = write_tree(tmp_path / "t", "a.parquet")
    source = followed(root, confirm_after)
    write_file(root / "b.parquet")
    if confirm_after == HOUR:
        assert names(source.snapshot()) == ["a.parquet"], "that is what the declaration believes"
        source.confirm()
    time.sleep(min(confirm_after, 0.25))
    assert names(source.snapshot()) == ["a.parquet", "b.parquet"]


def test_a_build_lists_everything(tmp_path: Path) -> None:
    """Records of a file must not be made under its version from before an overwrite that was not notified (R4)."""
    root = write_tree(tmp_path / "t", "a.parquet", "b.parquet")
    source = followed(root)
    before = source.snapshot()
    write_file(root / "a.parquet", x=[77])
    time.sleep(TICK)
    assert source.snapshot(before) is before
    again = source.look_again(before, source.believed())
    assert len(set(slice_keys(again)) & set(slice_keys(before))) == 1


def test_a_removed_file_of_which_nobody_told_is_met_by_planning_again(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet", "b.parquet")
    announce(f"{root}.feed", [str(root)], [])
    table = pruner.open_table(root, feed=f"{root}.feed")
    assert table.plan("x = 1").total == 2
    (root / "b.parquet").unlink()
    assert table.plan("x = 1").total == 2
    assert table.snapshot(fresh=True).plan("x = 1").total == 1


def test_verify_finds_what_changed_behind_the_feed(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet", "b.parquet")
    announce(f"{root}.feed", [str(root)], [])
    table = pruner.open_table(root, feed=f"{root}.feed")
    table.create_index("i", on="x")
    assert table.plan("x = 1").kept == 1
    assert table.verify(files=True) == []
    write_file(root / "a.parquet", x=[1])
    assert table.plan("x = 1").kept == 1, "the feed says nothing"
    [sentence] = table.verify(files=True)
    assert sentence.startswith(
        f"{root}/a.parquet is not the file that was indexed under this name: run pruner refresh"
    )
    pruner.notify(root, ["a.parquet"], feed=f"{root}.feed")
    assert table.plan("x = 1").kept == 2


def _garble(feed: Path) -> None:
    (feed / "x.json").write_text('{"Records": [')


def _cut(feed: Path) -> None:
    next(feed.glob("*.json")).write_text("[]")  # in place, like `logrotate` with copytruncate


def _replace(feed: Path) -> None:
    file = next(feed.glob("*.json"))
    scratch = feed.parent / "scratch"
    scratch.write_text(json.dumps({"pruner_notify": 1, "paths": []}) + " " * 100)
    scratch.rename(file)


def _remove(feed: Path) -> None:
    for file in feed.glob("*"):
        file.unlink() if file.is_file() else file.rmdir()
    feed.rmdir()


def _empty(feed: Path) -> None:
    for file in feed.glob("*.json"):
        file.unlink()


def _events(text: object) -> object:
    return lambda feed: (feed / "x.json").write_text(text if isinstance(text, str) else json.dumps(text))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_garble, "is not JSON, or not yet whole"),
        (_cut, "was cut or replaced since it was read"),
        (_replace, "was cut or replaced since it was read"),
        (_remove, "the change feed cannot be listed"),
        (_empty, "holds no events"),
        (_events(""), "is empty"),
        (_events({"s3": {"bucket": {}}}), "without bucket or key"),
        (_events({"some": "thing"}), "neither an S3 event nor one of pruner notify"),
        (_events([1]), "something that is not an event"),
        (_events("[" * 200 + "]" * 200), "nested too deeply"),
        (_events({"pruner_notify": 2, "paths": []}), "neither an S3 event nor one of pruner notify"),
        (_events({"pruner_notify": 1, "paths": ["../a.parquet"]}), "cannot be checked by itself"),
        (_events({"pruner_notify": 1, "paths": ["a\0"]}), "cannot be checked by itself"),
        (_events({"pruner_notify": 1, "paths": ["."]}), "names the whole table"),
        (_events({"pruner_notify": 1, "paths": ["_delta_log/0.json"]}), "the kind of the table"),
        (_events({"s3": {"bucket": {"name": "b"}, "object": {"key": "k"}}}), "is a folder"),
        (_events({"s3": {"bucket": {"name": "b"}, "object": {"key": "%FF"}}}), "not UTF-8"),
        (_events(" " * (FEED_FILE_BYTES + 1)), "are larger than"),
        (_events({"pruner_notify": 1, "paths": ["ftp://else/a"]}), "which is not a location"),
    ],
)
def test_what_is_doubtful_lists_everything_and_says_why(tmp_path: Path, spoil: object, reason: str) -> None:
    """A change without an event is still seen, because the listing is a full one."""
    root = write_tree(tmp_path / "t", "a.parquet")
    source = followed(root)
    write_file(root / "b.parquet")
    assert callable(spoil)
    spoil(tmp_path / "t.feed")
    assert names(source.snapshot()) == ["a.parquet", "b.parquet"]
    (doubt,) = source.doubts()
    assert reason in doubt


def test_a_doubt_is_over_after_one_whole_listing_and_stands_in_plans_until_then(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet")
    announce(f"{root}.feed", [str(root)], [])
    table = pruner.open_table(root, feed=f"{root}.feed")
    table.create_index("i", on="x")
    assert table.plan("x = 0").fallbacks == ()
    _garble(tmp_path / "t.feed")
    time.sleep(TICK)
    assert any("t.feed/x.json is not JSON" in reason for reason in table.plan("x = 0").fallbacks)
    with listings(LocalLister) as whole:
        assert table.plan("x = 0").fallbacks == ()
    assert whole == []


def test_where_much_is_named_a_listing_is_faster_and_nothing_is_wrong(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet")
    source = followed(root)
    write_file(root / "b.parquet")
    announce(f"{root}.feed", [str(root)], [f"{number}.parquet" for number in range(FEED_NAMES + 1)])
    assert names(source.snapshot()) == ["a.parquet", "b.parquet"]
    assert source.doubts() == ()


def test_a_location_is_recognised_in_each_spelling(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet")
    source = followed(root)
    for number, spelt in enumerate((f"file://{root}/", f"{root}/../t/", f"file:{root}/", "./", "")):
        write_file(root / f"{number}.parquet")
        event = {"pruner_notify": 1, "paths": [f"{spelt}{number}.parquet"]}
        add_event(f"{root}.feed", json.dumps(event).encode())
        assert len(source.snapshot()) == number + 2, spelt


@pytest.mark.slow
def test_a_feed_of_too_many_events_is_not_read(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet")
    source = followed(root)
    event = next((tmp_path / "t.feed").glob("*.json"))
    for number in range(FEED_FILES):
        os.link(event, tmp_path / "t.feed" / f"{number}.json")
    source.snapshot()
    assert f"more than {FEED_FILES:,} event files" in source.doubts()[0]


def test_the_clock_set_back_is_a_doubt(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet")
    source = followed(root)
    with patch("pruner.tables.feed.lister.time.time", lambda: 0.0):
        source.snapshot()
    assert "the clock was set back" in source.doubts()[0]


def test_a_file_that_grows_line_by_line_is_read_on(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet")
    source = followed(root)
    queue = tmp_path / "t.feed" / "queue.jsonl"
    with listings(LocalLister) as whole:
        for number in range(3):
            write_file(root / f"{number}.parquet")
            with queue.open("a") as file:
                file.write(json.dumps({"pruner_notify": 1, "paths": [f"{number}.parquet"]}) + "\n")
            time.sleep(TICK)
            assert f"{number}.parquet" in names(source.snapshot())
    assert whole == []


def test_folders_that_come_and_go_are_named_once(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet", "k=1/b.parquet", "k=1/l=1/c.parquet", "k=10/d.parquet")
    source = followed(root)
    with listings(LocalLister) as whole:
        (root / "k=1").rename(tmp_path / "away")
        write_tree(root, "k=2/l=1/e.parquet")
        announce(f"{root}.feed", [str(root)], ["k=1", "k=2/"])
        assert names(source.snapshot()) == ["a.parquet", "k=10/d.parquet", "k=2/l=1/e.parquet"]
        # A name can change from a folder to a file and back.
        (root / "k=2").rename(tmp_path / "away2")
        write_file(root / "k=2")
        announce(f"{root}.feed", [str(root)], ["k=2"])
        assert names(source.snapshot()) == ["a.parquet", "k=10/d.parquet", "k=2"]
    assert whole == []


def test_hidden_names_and_other_tables_are_passed_over(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet")
    source = followed(root)
    before = source.snapshot()
    write_tree(root, "_tmp/b.parquet", ".c.parquet", "t.pruner/d.parquet")
    add_event(
        f"{root}.feed",
        json.dumps(
            {"pruner_notify": 1, "paths": ["_tmp/b.parquet", ".c.parquet", "t.pruner/d.parquet", "/else/x"]}
        ).encode(),
    )
    with listings(LocalLister) as whole:
        assert source.snapshot(before) is before
    assert whole == []


@pytest.mark.parametrize("kind", FOREIGN_TABLES)
def test_r8_a_feed_that_names_another_formats_files_ends_in_a_refusal(tmp_path: Path, kind: str) -> None:
    """Also if the folders of the new files existed before."""
    table = FOREIGN_TABLES[kind]
    root = write_tree(tmp_path / "t", *table.data)
    for folder in {path.partition("/")[0] for path in table.beside} - {"_delta_log", "_spark_metadata"}:
        (root / folder).mkdir()
    source = followed(root)
    for path, text in table.beside.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    announce(f"{root}.feed", [str(root)], list(table.beside))
    with pytest.raises(TableError, match=table.what):
        source.snapshot()


@pytest.mark.slow
def test_objects_come_and_go_at_random_and_events_come_late_twice_and_in_any_order() -> None:
    """After the last event a source that follows has what a new one lists, whatever the events before looked like."""
    for seed in range(max(3, examples(6))):
        random = Random(seed)
        root, store = in_memory()
        bucket = root.split("/")[2]
        feed = f"memory://{bucket}/feed"
        for number in range(40):
            put(store, f"k={number % 5}/{number}.parquet", number)
        announce(feed, [root], [])
        source = ParquetSource([root], feed=FeedSettings(feed, HOUR))
        source.snapshot()
        waiting: list[str] = []
        for _ in range(8):
            path = f"k={random.randrange(6)}/{random.randrange(60)}.parquet"
            if random.random() < 0.4:
                store.delete([path])
            else:
                put(store, path, random.randrange(1000))
            waiting += [path] * random.randint(1, 2)
            random.shuffle(waiting)
            for _ in range(random.randint(0, len(waiting))):
                add_event(
                    feed, json.dumps({"Records": [s3_event(bucket, f"lake/t/{waiting.pop()}")]}).encode()
                )
            with listings(StoreLister) as whole:
                found = source.snapshot()
            assert whole == []
            if not waiting:
                assert found.id == ParquetSource([root]).snapshot().id
        announce(feed, [root], waiting)
        assert source.snapshot().id == ParquetSource([root]).snapshot().id
        assert source.doubts() == ()


def test_a_feed_inside_the_table_and_paths_outside_of_it_are_refused(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", "a.parquet")
    with pytest.raises(TableError, match="the change feed .* and the table .* overlap"):
        pruner.open_table(root, feed=str(root / "feed"))
    with pytest.raises(TableError, match="the change feed .* and the table .* overlap"):
        pruner.open_table(root, feed=str(tmp_path))
    with pytest.raises(TableError, match="is not below"):
        pruner.notify(root, [tmp_path / "u" / "a.parquet"], feed=f"{root}.feed")
    with pytest.raises(ConfigError, match="has no change feed"):
        pruner.notify(root, ["a.parquet"])
    with pytest.raises(TableError, match="the text is not a file of events: it is not JSON"):
        add_event(f"{root}.feed", b"{")
    assert not Path(f"{root}.feed").exists()
