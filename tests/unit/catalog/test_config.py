"""pruner.toml: where it is found, what its keys mean, and that every error in it is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.catalog.config import FILE_NAME, FILE_VARIABLE, Config, load
from pruner.catalog.names import open_given
from pruner.catalog.settings import ConfigError, TableSettings, settings_of
from pruner.errors import TableError
from pruner.limits import CONFIG_BYTES


@pytest.fixture(autouse=True)
def _no_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FILE_VARIABLE, raising=False)


def write(folder: Path, text: str) -> Path:
    path = folder / FILE_NAME
    path.write_text(text, encoding="utf-8")
    return path


def test_every_key_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        [tables.flights]
        uri = ["s3://lake/a", "s3://lake/b"]
        index_uri = "s3://indexes/flights"
        storage_options = { region = "eu-central-1", allow_http = true, retries = 3 }
        aliases = ["hive.web.flights", "f"]
        max_staleness = 2.5
        """,
    )
    config = load(tmp_path / FILE_NAME)
    assert config.find("flights") == TableSettings(
        uris=("s3://lake/a", "s3://lake/b"),
        name="flights",
        index_uri="s3://indexes/flights",
        storage_options={"region": "eu-central-1", "allow_http": "true", "retries": "3"},
        aliases=("hive.web.flights", "f"),
        max_staleness=2.5,
    )
    assert config.names() == ("flights",)


def test_names_and_aliases_are_found_whatever_the_case(tmp_path: Path) -> None:
    config = load(write(tmp_path, '[tables.Flights]\nuri = "/f"\naliases = ["Hive.Web.Flights"]'))
    for name in ("flights", "FLIGHTS", "hive.web.flights"):
        found = config.find(name)
        assert found is not None
        assert found.name == "Flights"
    assert config.find("web.flights") is None


def test_the_nearest_file_above_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, '[tables.t]\nuri = "/outer"')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    assert load().resolve("t").uris == ("/outer",)
    write(tmp_path / "a", '[tables.t]\nuri = "/inner"')
    assert load().resolve("t").uris == ("/inner",)


def test_the_variable_names_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, '[tables.t]\nuri = "/here"')
    other = tmp_path / "other.toml"
    other.write_text('[tables.t]\nuri = "/there"', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FILE_VARIABLE, str(other))
    assert load().resolve("t").uris == ("/there",)
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "gone.toml"))
    with pytest.raises(ConfigError, match=r"cannot read the configuration .*gone\.toml: No such file"):
        load()


def test_relative_paths_start_at_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(
        tmp_path,
        """
        tables.t = { uri = ["data/t", "../t2", "/abs", "~/home", "s3://b/t"], index_uri = "index" }
        """,
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    found = load(path).resolve("t")
    assert found.uris == (f"{tmp_path}/data/t", f"{tmp_path.parent}/t2", "/abs", "~/home", "s3://b/t")
    assert found.index_uri == f"{tmp_path}/index"


def test_variables_are_filled_in_when_the_table_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        tmp_path,
        """
        [tables.t]
        uri = "s3://${BUCKET}/$$/t"
        storage_options = { aws_secret_access_key = "${T_SECRET}" }
        [tables.other]
        uri = "/other"
        """,
    )
    monkeypatch.delenv("BUCKET", raising=False)
    config = load(path)
    assert config.resolve("other").uris == ("/other",)
    with pytest.raises(ConfigError, match=r"tables\.t\.uri: the environment variable BUCKET is not set"):
        config.resolve("t")
    monkeypatch.setenv("BUCKET", "lake")
    monkeypatch.setenv("T_SECRET", "hunter2")
    found = config.resolve("t")
    assert found.uris == ("s3://lake/$/t",)
    assert found.storage_options == {"aws_secret_access_key": "hunter2"}
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    "key",
    ["aws_secret_access_key", "aws_access_key_id", "session_token", "PASSWORD", "sas_token", "account_key"],
)
@pytest.mark.parametrize("value", ["hunter2", "hunter2${X}"])
def test_a_secret_in_the_file_is_refused_and_not_shown(tmp_path: Path, key: str, value: str) -> None:
    path = write(tmp_path, f'[tables.t]\nuri = "s3://b/t"\nstorage_options = {{ {key} = "{value}" }}')
    with pytest.raises(
        ConfigError, match=rf"tables\.t\.storage_options\.{key} looks like a secret"
    ) as refused:
        load(path)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("key", ["aws_sse_kms_key_id", "region", "endpoint"])
def test_what_is_no_secret_may_stand_in_the_file(tmp_path: Path, key: str) -> None:
    path = write(tmp_path, f'[tables.t]\nuri = "s3://b/t"\nstorage_options = {{ {key} = "x" }}')
    assert load(path).resolve("t").storage_options == {key: "x"}


WRONG = {
    "[tables.t\n": "is not valid TOML: .*line 1",
    "x = 1": "unknown key 'x': tables belong in sections",
    "tables = 1": "tables must be a table of keys",
    "[tables]\nt = '/t'": "tables.t must be a table of keys",
    "[tables.t]\n": 'tables.t: the key "uri" is missing',
    "[tables.t]\nuri = ''": "tables.t.uri must be a string that is not empty",
    "[tables.t]\nuri = []": 'tables.t: the key "uri" is missing',
    "[tables.t]\nuri = [1]": "tables.t.uri must be a string",
    "[tables.t]\nuri = 1": "tables.t.uri must be a string or a list",
    "[tables.web.visits]\nuri = '/t'": r"tables.web: quote a name with dots in it: \[tables.\"web.visits\"\]$",
    "[tables.t]\nuri = '/t'\nindex_url = '/i'": "tables.t: unknown key 'index_url': did you mean 'index_uri'",
    "[tables.t]\nuri = '/t'\nzzz = 1": "unknown key 'zzz'; the keys of a table are uri, index_uri",
    "[tables.t]\nuri = '/t'\nindex_uri = 1": "tables.t.index_uri must be a string",
    "[tables.t]\nuri = '/t'\nstorage_options = 'x'": "tables.t.storage_options must be a table",
    "[tables.t]\nuri = '/t'\nstorage_options = { a = [] }": "storage_options.a must be a string, a number",
    "[tables.t]\nuri = '/t'\naliases = 1": "tables.t.aliases must be a string or a list",
    "[tables.t]\nuri = '/t'\naliases = ['']": "tables.t.aliases must be a string that is not empty",
    "[tables.t]\nuri = '/t'\nmax_staleness = -1": "tables.t.max_staleness must be a number of seconds",
    "[tables.t]\nuri = '/t'\nmax_staleness = nan": "tables.t.max_staleness must be a number of seconds",
    "[tables.t]\nuri = '/t'\nmax_staleness = true": "tables.t.max_staleness must be a number of seconds",
    "[tables.t]\nuri = '/t'\n[tables.T]\nuri = '/u'": "the name 'T' already belongs to table 't'",
    "[tables.t]\nuri = '/t'\naliases = ['T']": "the name 'T' already belongs to table 't'",
    "[tables.t]\nuri = '/t'\naliases=['a']\n[tables.a]\nuri = '/a'": "the name 'a' already belongs to table 't'",
    "tables.t={uri='/t', index_uri='/i'}\ntables.u={uri='/u', index_uri='/i'}": "u.index_uri is already that of",
    "tables.t.uri = '/t'\ntables.\"\".uri = '/u'": "a name or alias is empty",
    "tables.t.uri = " + "[" * 5000: "is not valid TOML",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("text", "problem"), WRONG.items(), ids=range(len(WRONG)))
def test_mistakes_are_reported_with_the_file(tmp_path: Path, text: str, problem: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=problem) as refused:
        load(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_dangling_variable_is_named(tmp_path: Path) -> None:
    config = load(write(tmp_path, "[tables.t]\nuri = '/t/${oops'"))
    with pytest.raises(
        ConfigError, match=re.escape("tables.t.uri: '${' must be followed by a variable's name")
    ):
        config.resolve("t")


def test_a_file_that_is_not_text_or_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"x = '\xff'")
    with pytest.raises(ConfigError, match="byte 5 is not UTF-8"):
        load(path)
    path.write_bytes(b"#" * (CONFIG_BYTES + 1))
    with pytest.raises(ConfigError, match="is larger than 1,048,576 bytes"):
        load(path)
    with pytest.raises(ConfigError, match="cannot read the configuration .*: Is a directory"):
        load(tmp_path)


def test_what_is_no_name_is_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    for place in ("s3://b/t", "/data/t", "./t", "a/b", ".", "here"):
        assert Config().resolve(place) == TableSettings(uris=(place,))
    with pytest.raises(
        TableError, match=r"unknown table 'gone': there is no such path, and there is no pruner\.toml"
    ):
        Config().resolve("gone")


def test_a_name_wins_over_a_folder_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t").mkdir()
    config = load(write(tmp_path, "[tables.t]\nuri = '/elsewhere'"))
    assert config.resolve("t").uris == ("/elsewhere",)
    assert config.resolve("./t").uris == ("./t",)


def test_an_unknown_name_shows_the_nearest_known_ones(tmp_path: Path) -> None:
    path = write(tmp_path, "[tables.flights]\nuri = '/f'\naliases = ['web']")
    with pytest.raises(
        TableError, match=r"'flihgts' \(did you mean 'flights'\?\): .*pruner\.toml names flights, web$"
    ):
        load(path).resolve("flihgts")
    with pytest.raises(TableError, match=r"unknown table 'zzz': .*pruner\.toml names flights, web$"):
        load(path).resolve("zzz")


def test_options_from_a_program_are_checked_as_well() -> None:
    with pytest.raises(ConfigError, match=r"flights: unknown key 'url': did you mean 'uri'"):
        settings_of({"url": "/f"}, "flights")
    # Programs may get their secrets from anywhere.
    settings = settings_of({"uri": "/f", "storage_options": {"token": "t"}}, "flights")
    assert settings.storage_options == {"token": "t"}


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory whose `pruner.toml` stores the index of a small table elsewhere."""
    pq.write_table(pa.table({"x": [1, 2]}), _made(tmp_path / "data") / "a.parquet")
    write(tmp_path, '[tables.events]\nuri = "data"\nindex_uri = "index"\naliases = ["hive.web.events"]')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


@pytest.mark.parametrize("given", ["events", "hive.web.EVENTS", "data", "./data/", ["data"]])
def test_a_table_is_opened_as_the_file_says_however_a_program_names_it(
    configured: Path, given: str | list[str]
) -> None:
    for table in (
        pruner.open_table(given),
        open_given(given, "tables['t']"),
        open_given({"uri": given}, "tables['t']"),
    ):
        assert table.uri == str(configured / "data")
        assert table.index_uri == str(configured / "index")


def test_what_a_program_says_of_a_table_comes_before_the_file(configured: Path) -> None:
    assert pruner.open_table("events", index_uri=str(configured / "mine")).index_uri == str(
        configured / "mine"
    )


def test_an_unset_variable_of_the_table_itself_is_an_error_and_of_another_table_is_not(
    configured: Path,
) -> None:
    write(configured, '[tables.other]\nuri = "${PRUNER_TEST_UNSET}/x"\n[tables.t]\nuri = "data"')
    assert pruner.open_table("data").uri == str(configured / "data")
    write(configured, '[tables.t]\nuri = "data"\nindex_uri = "${PRUNER_TEST_UNSET}/i"')
    with pytest.raises(ConfigError, match="PRUNER_TEST_UNSET is not set"):
        pruner.open_table("data")


def test_a_variable_is_not_looked_up_for_what_the_program_says_itself(configured: Path) -> None:
    write(
        configured,
        '[tables.t]\nuri = "data"\nindex_uri = "${PRUNER_TEST_UNSET}/i"\n'
        'storage_options = { aws_session_token = "${PRUNER_TEST_UNSET}", region = "here" }',
    )
    place, options = str(configured / "mine"), {"aws_session_token": "$${not a variable}"}
    table = pruner.open_table("data", index_uri=place, storage_options=options)
    assert table.index_uri == place
    assert table.storage_options == {**options, "region": "here"}
    with pytest.raises(
        ConfigError, match=r"storage_options\.aws_session_token: .*PRUNER_TEST_UNSET is not set"
    ):
        pruner.open_table("data", index_uri=place)


def test_a_name_that_nobody_knows_says_which_are_known(configured: Path) -> None:
    with pytest.raises(TableError, match="names events"):
        pruner.open_table("event")


@pytest.mark.parametrize("given", [5, [5], [None]])
def test_values_that_name_no_table(given: Any) -> None:
    with pytest.raises(
        TableError, match="a table is given as a path, a URI, a name or a list of locations, not as"
    ):
        pruner.open_table(given)


@pytest.mark.parametrize("age", [-1, float("nan"), float("inf"), True])
def test_an_age_that_is_none_is_refused_by_its_name(tmp_path: Path, age: float) -> None:
    with pytest.raises(pruner.PrunerError, match="max_staleness must be a number of seconds, 0 or more"):
        pruner.open_table(tmp_path, max_staleness=age)
