"""HFiles: written cells are found by key and by prefix, with few reads, and damage raises an error of ours."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.errors import FormatError
from pruner.storage.opening import open_store
from pruner.tables.hudi.hfile.blocks import Codec, crc32c
from pruner.tables.hudi.hfile.reader import Held, HFile, SourceSection, Stored
from tests.support.hudi.made_up.hfiles import HFileWriter, cell, row_key

KEYS = st.binary(max_size=6)
CELLS = st.dictionaries(KEYS, st.binary(max_size=20), max_size=40).map(lambda found: sorted(found.items()))
WRITERS = st.builds(
    HFileWriter,
    codec=st.sampled_from(Codec),
    block_bytes=st.integers(1, 60),
    levels=st.integers(1, 4),
    fanout=st.integers(2, 4),
    checksum=st.sampled_from([0, 1, 2]),
    bytes_per_checksum=st.sampled_from([64, 1 << 14]),
)


class Counting(Held):
    """Bytes in memory that count what is read of them."""

    def __init__(self, data: bytes) -> None:
        super().__init__("counted", data)
        self.ranges: list[tuple[int, int]] = []

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        self.ranges += ranges
        return super().read(ranges)

    @property
    def total(self) -> int:
        return sum(length for _, length in self.ranges)


@given(CELLS, WRITERS, st.lists(KEYS, max_size=5), KEYS)
def test_what_was_written_is_found(
    cells: list[tuple[bytes, bytes]], writer: HFileWriter, others: list[bytes], prefix: bytes
) -> None:
    hfile = HFile(Held("written", writer.write(cells)))
    asked = [key for key, _ in cells[::3]] + others
    assert list(hfile.scan()) == cells
    assert list(hfile.scan(prefix)) == [(key, value) for key, value in cells if key.startswith(prefix)]
    several = (prefix, *(key[:2] for key in others))
    assert list(hfile.scan(*several)) == [(key, value) for key, value in cells if key.startswith(several)]
    assert hfile.look_up(asked) == {key: value for key, value in cells if key in asked}
    assert hfile.entries == len(cells)


@given(CELLS, WRITERS, st.lists(KEYS, max_size=12))
def test_rows_that_stand_in_values_are_told_from_rows(
    cells: list[tuple[bytes, bytes]], writer: HFileWriter, asked: list[bytes]
) -> None:
    """The value of each cell contains, as bytes, a cell of a row that is looked up: with its length before it."""
    asked += [key for key, _ in cells[::2]]
    hiding = [
        (key, cell(asked[number % len(asked)], b"wrong")) if asked else (key, value)
        for number, (key, value) in enumerate(cells)
    ]
    hfile = HFile(Held("written", writer.write(hiding)))
    for some in ([key] for key in asked):
        assert hfile.look_up(some) == {key: value for key, value in hiding if key in some}
        assert list(hfile.scan(*some)) == [pair for pair in hiding if pair[0].startswith(some[0])]
    assert hfile.look_up(asked) == {key: value for key, value in hiding if key in asked}


WIDE = st.text(st.sampled_from("aé\ud7ff\ue000！\U0001f600\U0010ffff"), max_size=3)


@given(st.lists(WIDE, unique=True), st.booleans(), WRITERS, st.lists(WIDE, max_size=4), st.booleans())
def test_text_is_found_in_the_order_of_its_bytes_and_in_that_of_java(
    texts: list[str], java: bool, writer: HFileWriter, others: list[str], last: bool
) -> None:
    """Java compares units of UTF-16: characters beyond U+FFFF come before U+E000 to U+FFFF."""
    ordered = sorted(texts, key=lambda text: text.encode("utf-16-be" if java else "utf-8"))
    cells = [(text.encode(), bytes([number])) for number, text in enumerate(ordered)]
    if last and cells:
        writer = replace(writer, info={b"hfile.LASTKEY": row_key(cells[-1][0])})
    hfile = HFile(Held("written", writer.write(cells)))
    asked = [text.encode() for text in [*texts, *others]]
    for key in asked:
        assert hfile.look_up([key]) == {row: value for row, value in cells if row == key}
        assert list(hfile.scan(key)) == [(row, value) for row, value in cells if row.startswith(key)]
    assert hfile.look_up(asked) == dict(cells)
    assert (
        list(hfile.scan(*asked[:3])) == [pair for pair in cells if pair[0].startswith(tuple(asked[:3]))]
        or not asked
    )
    assert list(hfile.scan()) == cells


@pytest.mark.parametrize("key", [b"", b"a", bytes(1 << 15)])
def test_a_missing_key_is_not_found(key: bytes) -> None:
    cells = [(f"{number:05}".encode(), b"\0\1a" * 9) for number in range(500)]
    assert HFile(Held("written", HFileWriter().write(cells))).look_up([key, b"00123"]) == dict(cells[123:124])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("prefix", [b"0", b"01", b"012", b"0123", b"01234", b"012345", b"5"])
def test_few_and_many_rows_of_a_block_begin_alike(prefix: bytes) -> None:
    """The searched bytes are in each value, and in rows after their beginning."""
    cells = [(f"{number:05}".encode(), prefix) for number in range(3_000)]
    hfile = HFile(Held("written", HFileWriter().write(cells)))
    assert list(hfile.scan(prefix)) == [each for each in cells if each[0].startswith(prefix)]
    plain = [(key, b"") for key, _ in cells]
    hfile = HFile(Held("written", HFileWriter().write(plain)))
    assert list(hfile.scan(prefix, b"029")) == [
        each for each in plain if each[0].startswith((prefix, b"029"))
    ]


def test_the_newest_of_cells_with_one_row_counts() -> None:
    cells = [(b"a", b"1"), (b"b", b"2"), (b"b", b"3"), (b"c", b"4")]
    hfile = HFile(Held("written", HFileWriter().write(cells)))
    many = [str(number).encode() for number in range(20)]
    assert hfile.look_up([b"b"]) == hfile.look_up([b"b", *many]) == {b"b": b"3"}


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("block_bytes", [1, 1 << 16])
def test_a_key_with_two_cells_can_be_refused(codec: Codec, many: bool, block_bytes: int) -> None:
    cells = [(f"{number:05}".encode(), b"v") for number in range(300)]
    cells.insert(124, (b"00123", b"w"))
    # Hudi and HBase keep cells of one key in one block.
    chunks = [cells] if block_bytes > 1 else [cells[:123], cells[123:125], cells[125:]]
    blocks = [(b"".join(cell(*each) for each in chunk), chunk[0][0], len(chunk)) for chunk in chunks]
    hfile = HFile(Held("written", HFileWriter(codec=codec).write_blocks(blocks)))
    others = [key for key, _ in cells[: 20 if many else 1]]
    assert hfile.look_up(others, once=True) == dict.fromkeys(others, b"v")
    assert hfile.look_up([*others, b"00123"])[b"00123"] == b"w"
    with pytest.raises(FormatError, match="a key occurs in it twice"):
        hfile.look_up([*others, b"00123"], once=True)


def test_keys_behind_the_last_one_read_nothing() -> None:
    cells = [(f"{number:05}".encode(), b"x" * 50) for number in range(500)]
    source = Counting(HFileWriter(info={b"hfile.LASTKEY": row_key(b"00499") + bytes(10)}).write(cells))
    hfile = HFile(source)
    source.ranges.clear()
    assert hfile.look_up([b"005", b"id:00123"]) == {}
    assert source.ranges == []
    assert hfile.look_up([b"00499", b"id:00123"]) == dict(cells[-1:])


@pytest.mark.parametrize("last", [b"\0", row_key(b"00499")[:-1]])
def test_a_last_key_that_is_cut_short_is_damage(last: bytes) -> None:
    data = HFileWriter(info={b"hfile.LASTKEY": last}).write([(b"00499", b"")])
    with pytest.raises(FormatError, match="cut short"):
        HFile(Held("written", data))


def test_unchecked_damage_is_noticed_by_a_look_up() -> None:
    """A length in a block that is neither compressed nor has a checksum, after the row that is looked up."""
    cells = [(f"{number:05}".encode(), b"x" * 50) for number in range(500)]
    data = bytearray(HFileWriter(codec=Codec.NONE).write(cells))
    at = data.index(row_key(b"00400")) - 1
    data[at] += 100
    with pytest.raises(FormatError, match="cell"):
        HFile(Held("damaged", bytes(data))).look_up([b"00003"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_look_up_reads_the_tail_and_one_block_of_each_level(levels: int) -> None:
    cells = [(f"{number:08}".encode(), random.Random(number).randbytes(30)) for number in range(50_000)]
    data = HFileWriter(block_bytes=1 << 14, levels=levels, fanout=16).write(cells)
    source = Counting(data)
    hfile = HFile(source)
    opened = len(source.ranges)
    assert hfile.look_up([cells[31_000][0]]) == dict([cells[31_000]])
    assert len(source.ranges) - opened == levels
    assert source.total < len(data) / 15


@pytest.mark.slow
def test_a_prefix_reads_its_blocks_alone() -> None:
    cells = [(f"{number // 500:04}{number:08}".encode(), bytes(40)) for number in range(50_000)]
    data = HFileWriter(codec=Codec.NONE, block_bytes=1 << 12).write(cells)
    source = Counting(data)
    hfile = HFile(source)
    source.ranges.clear()
    assert len(list(hfile.scan(b"0042"))) == 500
    assert source.total < len(data) / 50


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_many_prefixes_read_each_block_once(levels: int) -> None:
    cells = [(f"{number // 5:04}{number:08}".encode(), bytes(40)) for number in range(5_000)]
    source = Counting(
        HFileWriter(codec=Codec.NONE, block_bytes=1 << 10, levels=levels, fanout=16).write(cells)
    )
    hfile = HFile(source)
    source.ranges.clear()
    prefixes = [f"{number:04}".encode() for number in range(100, 300)]
    assert list(hfile.scan(*prefixes)) == cells[500:1500]
    assert len(source.ranges) == len(set(source.ranges))


def test_a_file_of_a_store_and_a_part_of_one_are_read_by_ranges(tmp_path: Any) -> None:
    data = HFileWriter().write([(b"a", b"1"), (b"b", b"2")])
    (tmp_path / "whole").write_bytes(data)
    (tmp_path / "part").write_bytes(b"before" + data + b"behind")
    store = open_store(str(tmp_path), {})
    whole = Stored(store, "whole", len(data))
    part = SourceSection(Stored(store, "part", len(data) + 12), 6, len(data))
    assert HFile(whole).look_up([b"b"]) == HFile(part).look_up([b"b"]) == {b"b": b"2"}
    with pytest.raises(FormatError, match="outside"):
        part.read([(0, len(data) + 1)])


def test_crc32c_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:-1], "trailer"),
        (lambda data: data[:-4] + b"\0\0\0\2", "version 2"),
        (lambda data: data[4096:], "outside|trailer|cut short|cannot be"),
        (lambda data: b"X" + data[1:], "X"),
        (lambda _: b"", "trailer"),
    ],
)
def test_damage_is_reported(damage: Any, reason: str) -> None:
    cells = [(f"{number:05}".encode(), b"x" * 50) for number in range(500)]
    data = damage(HFileWriter(codec=Codec.NONE).write(cells))
    with pytest.raises(FormatError, match=reason):
        list(HFile(Held("damaged", data)).scan())


MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(["set", "flip", "cut", "insert"]), st.integers(0, 1 << 20), st.integers(0, 255)
    ),
    min_size=1,
    max_size=3,
)


def mutated(data: bytes, mutations: Sequence[tuple[str, int, int]]) -> bytes:
    """Change some bytes; positions wrap around."""
    found = bytearray(data)
    for kind, place, value in mutations:
        at = place % max(1, len(found))
        if kind == "set":
            found[at : at + 1] = bytes([value])
        elif kind == "flip" and found:
            found[at] ^= 1 << value % 8
        elif kind == "cut":
            del found[at : at + value]
        elif kind == "insert":
            found[at:at] = bytes([value])
    return bytes(found)


@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("fewer", [1, 2, "all"])
def test_an_index_of_fewer_blocks_than_there_are_is_refused(levels: int, fewer: int | str) -> None:
    """The trailer has no checksum: another number of blocks hides keys, although the number of cells agrees."""
    writer = HFileWriter(block_bytes=1, levels=levels, fanout=4)
    data = writer.write([(b"key %02d" % number, b"") for number in range(16)])
    blocks = 16 if levels == 1 else 4
    place = data.rindex(b"\x28" + bytes([blocks]))  # field 5 of the trailer
    named = blocks - fewer if isinstance(fewer, int) else 0
    damaged = data[: place + 1] + bytes([named]) + data[place + 2 :]
    assert HFile(Held("whole", data)).entries == 16
    with pytest.raises(FormatError, match="its index has"):
        HFile(Held("damaged", damaged))


@given(CELLS, WRITERS, MUTATIONS)
def test_damaged_files_end_in_an_error_of_ours(
    cells: list[tuple[bytes, bytes]], writer: HFileWriter, mutations: Sequence[tuple[str, int, int]]
) -> None:
    data = mutated(writer.write(cells), mutations)
    try:
        hfile = HFile(Held("damaged", data))
        list(hfile.scan())
        hfile.look_up([key for key, _ in cells])
    except FormatError:
        pass


@given(CELLS.filter(bool), st.sampled_from([1, 2]), st.sampled_from(Codec), st.data())
def test_no_damaged_block_with_a_checksum_gives_a_value(
    cells: list[tuple[bytes, bytes]], checksum: int, codec: Codec, draw: st.DataObject
) -> None:
    data = bytearray(HFileWriter(codec=codec, checksum=checksum, bytes_per_checksum=64).write(cells))
    end = data.index(b"IDXROOT2")
    data[draw.draw(st.integers(33, end - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    with contextlib.suppress(FormatError):
        assert list(HFile(Held("damaged", bytes(data))).scan()) == cells
