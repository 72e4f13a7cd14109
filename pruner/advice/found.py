"""What an advisor says: plain values, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Proposal:
    """An index that would help: what it costs and what it saves beside those proposed before it.

    `bytes` are stored, and `seconds` are what the build takes of one core, without waiting for disks and stores.
    `saved_files` and `saved_bytes` are not read any more, over all questions as often as each was asked; `helped`
    numbers (from 1) the questions that it helps. `reason` says why this type, and `sql` makes it. Where the savings are
    `estimated`, files were judged that nobody looked into.
    """

    name: str
    using: str
    column: str
    bytes: int
    seconds: float
    saved_files: float
    saved_bytes: float
    helped: tuple[int, ...]
    reason: str
    sql: str
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class LayoutProposal:
    """Another order of the rows: files sorted by a column, or a partition for each value of it (`kind`).

    `files` and `bytes` are read then for all questions, with ranges of every column that they name and no other index;
    `saved_bytes` is what is read less than with the same ranges, beside the indexes of today, of the files as they lie.
    """

    column: str
    kind: str
    files: float
    bytes: float
    saved_bytes: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """One question: how often it was asked, and the files and bytes that it reads each time, today and as proposed.

    Today's are planned. Those as proposed are `estimated` where files were judged that nobody looked into.
    """

    number: int
    predicate: str
    times: int
    files_now: float
    bytes_now: float
    files_then: float
    bytes_then: float
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Advice:
    """What would help a table of `files` files and `bytes` bytes, judged by a sample of `sampled` files.

    `bytes_now` and `bytes_then` are the bytes read for all questions, today and with all proposals. `useless` has a
    sentence for each existing index that saved nothing, by its name; `notes` say what could not be judged, and why.
    """

    uri: str
    files: int
    bytes: int
    sampled: int
    bytes_now: float
    bytes_then: float
    questions: tuple[Forecast, ...]
    proposals: tuple[Proposal, ...]
    layouts: tuple[LayoutProposal, ...]
    useless: dict[str, str]
    notes: tuple[str, ...]
