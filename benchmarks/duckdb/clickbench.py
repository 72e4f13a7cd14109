"""ClickBench: its 43 queries over 100 files of one wide table, plain, by rewritten statements and by the native scan.

The published data (100 million page views of July 2013) are not available everywhere. `write_hits` generates fewer:
all 105 columns with their types, ordered as the published files, by counter, day and visitor; most texts are empty,
few visitors search, and a counter has from a handful of views to a few percent of all.

The queries are those of ClickBench with two changes: results with ties are ordered by all of their columns, and
thresholds (`HAVING`, `OFFSET`) shrink with the number of rows. Ratios are of CPU time: least of several runs, in
turn. The CPU time of a query also depends on other load on the machine; the time of rewriting it is reported
separately.
"""

from __future__ import annotations

import math
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
from benchmarks.duckdb.tpc import difference
from pruner_duckdb.native_scan.library import forget_answers, reason_against
from pruner_duckdb.rewrite.rewrite import Rewriter

FILES = 100
ROWS_PER_FILE = int(os.environ.get("PRUNER_BENCH_HITS_ROWS", "15000"))
RUNS = 4
MOST_SHARE = 1.03
"""Upper bound for a query's time as a share of plain DuckDB's."""

PUBLISHED_ROWS = 100_000_000
CONFIG = {"memory_limit": "4GB", "threads": 2}

COUNTER, USER = 62, 435090932899640449
URL_HASH, REFERER_HASH = 2868770270353813622, 3594120000172545465
"""Constants in the queries."""


def _pick(salt: int, most: int) -> str:
    """A number below `most` that depends on the row."""
    return f"(hash(r, {salt}) % {most})::BIGINT"


def _rare(salt: int, of: int, value: str, otherwise: str) -> str:
    return f"CASE WHEN {_pick(salt, of)} = 0 THEN {value} ELSE {otherwise} END"


def _of_counter(salt: int, value: int, otherwise: str) -> str:
    return f"CASE WHEN counter = {COUNTER} AND {_pick(salt, 3)} = 0 THEN {value} ELSE ({otherwise}) END"


_SECOND = f"(day::TIMESTAMP + to_seconds({_pick(4, 86_400)}))"
_PAGE = f"least({_pick(5, 400)}, {_pick(6, 400)}, {_pick(7, 400)})"
_SITE = "('http://' || CASE counter % 7 WHEN 0 THEN '' ELSE 'www.' END || 'site' || counter || '.ru/')"
_PHRASE = f"'phrase ' || least({_pick(8, 3000)}, {_pick(9, 3000)}, {_pick(10, 3000)})"
_VISITOR = f"(hash(counter, least({_pick(11, 900)}, {_pick(12, 900)})) >> 1)::BIGINT"

_SPECIAL: Mapping[str, str] = {
    "WatchID": "(hash(r, 1) >> 1)",
    "JavaEnable": _rare(2, 4, "0", "1"),
    "Title": f"CASE {_pick(3, 60)} WHEN 0 THEN '' WHEN 1 THEN 'Google ' || {_PAGE} ELSE 'Page ' || {_PAGE} END",
    "GoodEvent": "1",
    "EventTime": _SECOND,
    "EventDate": "day",
    "CounterID": "counter",
    "ClientIP": f"({_VISITOR} % 4294967296 - 2147483648)",
    "RegionID": f"least({_pick(13, 5000)}, {_pick(14, 5000)}, 9000 + counter % 300)",
    "UserID": f"CASE WHEN counter = 1203 AND {_pick(57, 9)} = 0 THEN {USER} ELSE {_VISITOR} END",
    "OS": _pick(15, 90),
    "UserAgent": _pick(16, 80),
    "URL": f"""CASE WHEN {_pick(17, 700)} = 0 THEN 'http://www.google.ru/search?q=' || {_PAGE}
                    WHEN {_pick(18, 900)} = 0 THEN 'http://site.ru/google/' || {_PAGE}
                    WHEN {_pick(19, 300)} = 0 THEN '' ELSE {_SITE} || 'page/' || {_PAGE} END""",
    "Referer": f"CASE WHEN {_pick(20, 5)} = 0 THEN '' ELSE {_SITE} || 'from/' || {_PAGE} END",
    "IsRefresh": _rare(21, 8, "1", "0"),
    "ResolutionWidth": f"[1024, 1280, 1366, 1440, 1600, 1680, 1920, 0][1 + {_pick(22, 8)}]",
    "ResolutionHeight": f"[768, 800, 900, 1050, 1080, 0][1 + {_pick(23, 6)}]",
    "ResolutionDepth": _rare(24, 9, "32", "24"),
    "UserAgentMajor": _pick(25, 30),
    "UserAgentMinor": f"'D' || {_pick(26, 9)}",
    "CookieEnable": "1",
    "JavascriptEnable": "1",
    "IsMobile": _rare(27, 20, "1", "0"),
    "MobilePhone": _rare(27, 20, _pick(28, 90), "0"),
    "MobilePhoneModel": _rare(
        27, 20, f"['iPad', 'iPhone', 'A500', 'N8-00', 'GT'][1 + {_pick(28, 90)} % 5]", "''"
    ),
    "IPNetworkID": _pick(29, 3_000_000),
    "TraficSourceID": f"CASE WHEN counter % 5 = 0 THEN -1 ELSE [0, 1, 2, 3, 6, -1][1 + {_pick(30, 6)}] END",
    "SearchEngineID": _rare(31, 8, f"least({_pick(32, 60)}, {_pick(33, 60)})", "0"),
    "SearchPhrase": _rare(31, 8, _PHRASE, "''"),
    "AdvEngineID": _rare(34, 160, f"(2 + {_pick(35, 60)})", "0"),
    "WindowClientWidth": f"(600 + {_pick(36, 1400)})",
    "WindowClientHeight": f"(300 + {_pick(37, 900)})",
    "ClientTimeZone": "-1",
    "ClientEventTime": f"{_SECOND} + to_minutes({_pick(38, 3)})",
    "PageCharset": "'utf-8'",
    "CodeVersion": _pick(39, 1700),
    "IsLink": _rare(40, 12, "1", "0"),
    "IsDownload": _rare(41, 90, "1", "0"),
    "IsNotBounce": _rare(42, 2, "1", "0"),
    "FUniqID": f"CASE WHEN {_pick(43, 3)} = 0 THEN 0 ELSE {_VISITOR} END",
    "HID": f"({_pick(44, 4294967296)} - 2147483648)",
    "DontCountHits": _rare(45, 10, "1", "0"),
    "WithHash": _rare(46, 20, "1", "0"),
    "HitColor": f"['5', 'g', 'E', '\\', '0'][1 + {_pick(47, 5)}]",
    "LocalEventTime": f"{_SECOND} + to_hours(4)",
    "Age": f"[0, 0, 0, 22, 31, 39, 55][1 + {_VISITOR} % 7]",
    "Sex": f"[0, 1, 2][1 + {_VISITOR} % 3]",
    "RemoteIP": f"({_VISITOR} % 4294967296 - 2147483648)",
    "BrowserLanguage": "'ru'",
    "BrowserCountry": "'RU'",
    "SendTiming": _rare(48, 20, _pick(49, 9000), "0"),
    "FetchTiming": _rare(50, 20, _pick(51, 9000), "0"),
    "ParamCurrency": "'NH'",
    "UTMSource": _rare(52, 60, f"'source' || {_pick(53, 20)}", "''"),
    "RefererHash": _of_counter(54, REFERER_HASH, "hash(r, 55) >> 1"),
    "URLHash": _of_counter(56, URL_HASH, f"hash({_SITE}, {_PAGE}) >> 1"),
}
"""How values are generated; in other columns every value is 0 or empty, as nearly all of the published ones are."""

_COLUMNS = """
BIGINT WatchID; SMALLINT JavaEnable; VARCHAR Title; SMALLINT GoodEvent; TIMESTAMP EventTime; DATE EventDate;
INTEGER CounterID ClientIP RegionID; BIGINT UserID; SMALLINT CounterClass OS UserAgent; VARCHAR URL Referer;
SMALLINT IsRefresh RefererCategoryID; INTEGER RefererRegionID; SMALLINT URLCategoryID; INTEGER URLRegionID;
SMALLINT ResolutionWidth ResolutionHeight ResolutionDepth FlashMajor FlashMinor; VARCHAR FlashMinor2;
SMALLINT NetMajor NetMinor UserAgentMajor; VARCHAR UserAgentMinor;
SMALLINT CookieEnable JavascriptEnable IsMobile MobilePhone; VARCHAR MobilePhoneModel Params; INTEGER IPNetworkID;
SMALLINT TraficSourceID SearchEngineID; VARCHAR SearchPhrase;
SMALLINT AdvEngineID IsArtifical WindowClientWidth WindowClientHeight ClientTimeZone; TIMESTAMP ClientEventTime;
SMALLINT SilverlightVersion1 SilverlightVersion2; INTEGER SilverlightVersion3; SMALLINT SilverlightVersion4;
VARCHAR PageCharset; INTEGER CodeVersion; SMALLINT IsLink IsDownload IsNotBounce; BIGINT FUniqID;
VARCHAR OriginalURL; INTEGER HID; SMALLINT IsOldCounter IsEvent IsParameter DontCountHits WithHash; VARCHAR HitColor;
TIMESTAMP LocalEventTime; SMALLINT Age Sex Income Interests Robotness; INTEGER RemoteIP WindowName OpenerName;
SMALLINT HistoryLength; VARCHAR BrowserLanguage BrowserCountry SocialNetwork SocialAction; SMALLINT HTTPError;
INTEGER SendTiming DNSTiming ConnectTiming ResponseStartTiming ResponseEndTiming FetchTiming;
SMALLINT SocialSourceNetworkID; VARCHAR SocialSourcePage; BIGINT ParamPrice; VARCHAR ParamOrderID ParamCurrency;
SMALLINT ParamCurrencyID; VARCHAR OpenstatServiceName OpenstatCampaignID OpenstatAdID OpenstatSourceID UTMSource
UTMMedium UTMCampaign UTMContent UTMTerm FromTag; SMALLINT HasGCLID; BIGINT RefererHash URLHash; INTEGER CLID
"""

COLUMNS: Mapping[str, str] = {
    name: words[0] for words in (each.split() for each in _COLUMNS.split(";")) for name in words[1:]
}
"""Types of the columns by their names, in their order."""


def write_hits(root: Path, files: int, rows: int) -> int:
    """Write the table, `rows` per file, the same each time; return the number of rows."""
    total = files * rows
    con = duckdb.connect(config=CONFIG)
    # A few counters have most of the views, and counter 62 as many as in the published data.
    con.execute(
        f"""CREATE TABLE counters AS
            WITH weights AS (
                SELECT i::INTEGER AS counter,
                       CASE i WHEN {COUNTER} THEN 0.0074 * 40 ELSE 1 / (1 + hash(i, 99) % 997) END AS w
                FROM range(38, 4000) s(i) WHERE i = {COUNTER} OR i = 1203 OR hash(i, 98) % 4 = 0
            ), ends AS (
                SELECT counter, ({total} * sum(w) OVER (ORDER BY counter) / sum(w) OVER ())::BIGINT AS ends FROM weights
            )
            SELECT counter, coalesce(lag(ends) OVER (ORDER BY counter), 0) AS begins, ends FROM ends"""
    )
    empty = {"VARCHAR": "''"}
    values = ", ".join(
        f"({_SPECIAL.get(name, empty.get(kind, '0'))})::{kind} AS {name}" for name, kind in COLUMNS.items()
    )
    root.mkdir(parents=True)
    for number in range(files):
        con.execute(
            f"""COPY (
                SELECT {values} FROM (
                    SELECT r, counter,
                           DATE '2013-07-02' + (30 * (r - begins) // greatest(1, ends - begins))::INTEGER AS day
                    FROM range({number * rows}, {(number + 1) * rows}) s(r) ASOF JOIN counters ON r >= begins
                ) ORDER BY r
            ) TO '{root}/hits_{number}.parquet' (FORMAT parquet)"""
        )
    return total


_SEARCHED = "SearchPhrase <> ''"
_JULY = f"CounterID = {COUNTER} AND EventDate >= '2013-07-01' AND EventDate <= '2013-07-31' AND IsRefresh = 0"


def _top(
    select: str, by: str, order: str, where: str = "true", rest: str = "LIMIT 10", having: str = ""
) -> str:
    """A query for the greatest groups: ties are ordered by the grouping columns."""
    grouped = f"SELECT {select} FROM hits WHERE {where} GROUP BY {by}{having and f' HAVING {having}'}"
    return f"{grouped} ORDER BY {order} DESC, {by} {rest}"


def questions(rows: int) -> list[str]:
    """The 43 queries over `rows` rows."""
    share = rows / PUBLISHED_ROWS
    many, pages, windows = max(1, round(100_000 * share)), round(1000 * share), round(10_000 * share)
    sums = ", ".join(["SUM(ResolutionWidth)", *(f"SUM(ResolutionWidth + {n})" for n in range(1, 90))])
    users, visits = "COUNT(DISTINCT UserID) AS u", "COUNT(*) AS c, SUM(IsRefresh), AVG(ResolutionWidth)"
    minute = "date_trunc('minute', EventTime)"
    host = r"regexp_replace(Referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1')"
    views = "COUNT(*) AS PageViews"
    source = "CASE WHEN SearchEngineID = 0 AND AdvEngineID = 0 THEN Referer ELSE '' END"
    traffic = f"TraficSourceID, SearchEngineID, AdvEngineID, {source}, URL"
    return [
        "SELECT COUNT(*) FROM hits",
        "SELECT COUNT(*) FROM hits WHERE AdvEngineID <> 0",
        "SELECT SUM(AdvEngineID), COUNT(*), AVG(ResolutionWidth) FROM hits",
        "SELECT AVG(UserID) FROM hits",
        "SELECT COUNT(DISTINCT UserID) FROM hits",
        "SELECT COUNT(DISTINCT SearchPhrase) FROM hits",
        "SELECT MIN(EventDate), MAX(EventDate) FROM hits",
        _top("AdvEngineID, COUNT(*)", "AdvEngineID", "COUNT(*)", "AdvEngineID <> 0", ""),
        _top(f"RegionID, {users}", "RegionID", "u"),
        _top(f"RegionID, SUM(AdvEngineID), COUNT(*) AS c, AVG(ResolutionWidth), {users}", "RegionID", "c"),
        _top(f"MobilePhoneModel, {users}", "MobilePhoneModel", "u", "MobilePhoneModel <> ''"),
        _top(
            f"MobilePhone, MobilePhoneModel, {users}",
            "MobilePhone, MobilePhoneModel",
            "u",
            "MobilePhoneModel <> ''",
        ),
        _top("SearchPhrase, COUNT(*) AS c", "SearchPhrase", "c", _SEARCHED),
        _top(f"SearchPhrase, {users}", "SearchPhrase", "u", _SEARCHED),
        _top("SearchEngineID, SearchPhrase, COUNT(*) AS c", "SearchEngineID, SearchPhrase", "c", _SEARCHED),
        _top("UserID, COUNT(*)", "UserID", "COUNT(*)"),
        _top("UserID, SearchPhrase, COUNT(*)", "UserID, SearchPhrase", "COUNT(*)"),
        "SELECT UserID, SearchPhrase, COUNT(*) FROM hits GROUP BY UserID, SearchPhrase ORDER BY ALL LIMIT 10",
        _top(
            "UserID, extract(minute FROM EventTime) AS m, SearchPhrase, COUNT(*)",
            "UserID, m, SearchPhrase",
            "COUNT(*)",
        ),
        f"SELECT UserID FROM hits WHERE UserID = {USER}",
        "SELECT COUNT(*) FROM hits WHERE URL LIKE '%google%'",
        _top(
            "SearchPhrase, MIN(URL), COUNT(*) AS c",
            "SearchPhrase",
            "c",
            f"URL LIKE '%google%' AND {_SEARCHED}",
        ),
        _top(
            f"SearchPhrase, MIN(URL), MIN(Title), COUNT(*) AS c, {users}",
            "SearchPhrase",
            "c",
            f"Title LIKE '%Google%' AND URL NOT LIKE '%.google.%' AND {_SEARCHED}",
        ),
        "SELECT * FROM hits WHERE URL LIKE '%google%' ORDER BY EventTime, WatchID LIMIT 10",
        f"SELECT SearchPhrase FROM hits WHERE {_SEARCHED} ORDER BY EventTime, WatchID LIMIT 10",
        f"SELECT SearchPhrase FROM hits WHERE {_SEARCHED} ORDER BY SearchPhrase LIMIT 10",
        f"SELECT SearchPhrase FROM hits WHERE {_SEARCHED} ORDER BY EventTime, SearchPhrase LIMIT 10",
        _top(
            "CounterID, AVG(strlen(URL)) AS l, COUNT(*) AS c",
            "CounterID",
            "l",
            "URL <> ''",
            "LIMIT 25",
            f"COUNT(*) > {many}",
        ),
        _top(
            f"{host} AS k, AVG(strlen(Referer)) AS l, COUNT(*) AS c, MIN(Referer)",
            "k",
            "l",
            "Referer <> ''",
            "LIMIT 25",
            f"COUNT(*) > {many}",
        ),
        f"SELECT {sums} FROM hits",
        _top(f"SearchEngineID, ClientIP, {visits}", "SearchEngineID, ClientIP", "c", _SEARCHED),
        _top(f"WatchID, ClientIP, {visits}", "WatchID, ClientIP", "c", _SEARCHED),
        _top(f"WatchID, ClientIP, {visits}", "WatchID, ClientIP", "c"),
        _top("URL, COUNT(*) AS c", "URL", "c"),
        _top("1, URL, COUNT(*) AS c", "1, URL", "c"),
        _top(
            "ClientIP, ClientIP - 1, ClientIP - 2, ClientIP - 3, COUNT(*) AS c",
            "ClientIP, ClientIP - 1, ClientIP - 2, ClientIP - 3",
            "c",
        ),
        _top(f"URL, {views}", "URL", "PageViews", f"{_JULY} AND DontCountHits = 0 AND URL <> ''"),
        _top(f"Title, {views}", "Title", "PageViews", f"{_JULY} AND DontCountHits = 0 AND Title <> ''"),
        _top(
            f"URL, {views}",
            "URL",
            "PageViews",
            f"{_JULY} AND IsLink <> 0 AND IsDownload = 0",
            f"LIMIT 10 OFFSET {pages}",
        ),
        _top(f"{traffic}, {views}", traffic, "PageViews", _JULY, f"LIMIT 10 OFFSET {pages}"),
        _top(
            f"URLHash, EventDate, {views}",
            "URLHash, EventDate",
            "PageViews",
            f"{_JULY} AND TraficSourceID IN (-1, 6) AND RefererHash = {REFERER_HASH}",
            f"LIMIT 10 OFFSET {round(100 * share)}",
        ),
        _top(
            f"WindowClientWidth, WindowClientHeight, {views}",
            "WindowClientWidth, WindowClientHeight",
            "PageViews",
            f"{_JULY} AND DontCountHits = 0 AND URLHash = {URL_HASH}",
            f"LIMIT 10 OFFSET {windows}",
        ),
        f"""SELECT {minute} AS M, {views} FROM hits
            WHERE {_JULY.replace("07-01", "07-14").replace("07-31", "07-15")} AND DontCountHits = 0
            GROUP BY {minute} ORDER BY {minute} LIMIT 10 OFFSET {pages}""",
    ]


def opened(root: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Connections in which the table is `hits`: plain DuckDB, and pruner's by each way available here."""
    table = pruner.open_table(str(root))
    table.create_index("ranges", on="*", if_not_exists=True)
    table.create_index("users", on="UserID", using="bloom_filter", if_not_exists=True)
    plain = duckdb.connect(config=dict(config))
    plain.execute(f"CREATE VIEW hits AS FROM read_parquet('{root}/*.parquet')")
    ways = {"rewritten": "off"} if reason_against() else {"rewritten": "off", "native": "on"}
    ours = {
        way: pruner_duckdb.connect({"hits": table}, config=dict(config), native=on)
        for way, on in ways.items()
    }
    return {"plain": plain, **ours}


def run(console: Console) -> None:
    """Measure all queries."""
    with tempfile.TemporaryDirectory() as folder:
        rows = write_hits(Path(folder) / "hits", FILES, ROWS_PER_FILE)
        connections = opened(Path(folder) / "hits", CONFIG)
        with _rewriting_timed() as own:
            measured = list(_measured(connections, questions(rows), own))
    ways = [way for way in connections if way != "plain"]
    grid = Grid(
        title=f"ClickBench over {rows:,} rows in {FILES} files: processor time in ms, ratios, files read"
    )
    for heading in (
        "",
        "plain",
        "own, new",
        "again",
        *(f"{each}, {way}" for each in ("new", "again", "files") for way in ways),
    ):
        grid.add_column(heading, justify="right")
    for number, (taken, files, _) in enumerate(measured):
        ratios = (taken[kind, way] / taken["new", "plain"] for kind in ("new", "again") for way in ways)
        cells = [*(f"{ratio:.2f}" for ratio in ratios), *(str(files[way]) for way in ways)]
        ours = (f"{taken[kind, 'own'] * 1e3:.1f}" for kind in ("new", "again"))
        grid.add_row(f"Q{number}", f"{taken['new', 'plain'] * 1e3:.1f}", *ours, *cells)
    console.print(grid)
    for way in ways:
        for kind in ("new", "again"):
            found = [taken[kind, way] / taken["new", "plain"] for taken, _, _ in measured]
            whole = sum(taken[kind, way] for taken, _, _ in measured) / sum(
                taken["new", "plain"] for taken, _, _ in measured
            )
            console.print(
                f"{kind}, {way}: mean ratio {statistics.mean(found):.2f}, of all time {whole:.2f}, worst "
                f"{max(found):.2f} (Q{found.index(max(found))}), best {min(found):.2f} (Q{found.index(min(found))})"
            )
            above = [f"Q{number} ({ratio:.2f})" for number, ratio in enumerate(found) if ratio > MOST_SHARE]
            console.print(f"{kind}, {way}, above {MOST_SHARE}: {', '.join(above) or 'none'}")
    wrong = [f"Q{number} {each}" for number, (_, _, found) in enumerate(measured) for each in found]
    console.print(f"answers that differ: {'; '.join(wrong) or 'none'}")


@contextmanager
def _rewriting_timed() -> Iterator[list[float]]:
    """Collect the CPU time of each rewriting in its thread."""
    taken: list[float] = []
    rewrite = Rewriter.rewrite

    def timed(*arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return rewrite(*arguments)
        finally:
            taken.append(time.thread_time() - began)

    with patch.object(Rewriter, "rewrite", timed):
        yield taken


def _measured(
    connections: Mapping[str, Any], asked: list[str], own: list[float]
) -> Iterator[tuple[dict[tuple[str, str], float], dict[str, int], list[str]]]:
    for sql in asked:
        taken: dict[tuple[str, str], float] = {}
        files: dict[str, int] = {}
        different: list[str] = []
        for number in range(1 + RUNS):
            right: Any = None
            for way, con in connections.items():
                for kind, text in (("new", f"{sql} -- {number}"), ("again", sql)):
                    if way == "native" and kind == "new":
                        forget_answers()
                    if way != "plain":
                        con.last_plans.clear()
                    own.clear()
                    began = time.process_time()
                    rows = con.execute(text).fetchall()
                    taken[kind, way] = min(taken.get((kind, way), math.inf), time.process_time() - began)
                    if way == "rewritten":
                        taken[kind, "own"] = min(taken.get((kind, "own"), math.inf), sum(own))
                    right = rows if way == "plain" else right
                    if number == 0 and (difference(right, rows)):
                        different.append(f"{way}: {difference(right, rows)}")
                    if number == 0 and way != "plain" and kind == "new":
                        files[way] = sum(scan.read for scan in con.last_plans)
        yield taken, files, different
