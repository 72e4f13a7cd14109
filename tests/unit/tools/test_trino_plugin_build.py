"""The Trino plugin without a server: what it compiles against, and that it computes the same keys as the service."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pruner.service.planning import file_key
from tests.support.running.patience import PATIENCE
from tools.jars import Jar, fetched_jar
from tools.java import trino_java
from tools.trino.distribution import trino_home
from tools.trino.plugin import INTERFACES, build, compile_sources, plugin_jar

pytestmark = pytest.mark.trino

OLDEST = (
    Jar("io.trino", "trino-spi", "476", "22ac21e1dbf723dee83651684abcaa4aac3041bc16a77401c4fc4ad017c8f7a9"),
    Jar("io.airlift", "slice", "2.3", "057d6e2529593cda5c07f8aae180656cffe6dc60c5edc5b19411b411bd620cd4"),
)
"""The interfaces of the oldest version that the plugin is meant for."""

PATHS = (
    "local:///lake/t/p=1/a.parquet",
    "local:/lake/t/a.parquet",
    "file:/lake/t/a.parquet",
    "file:///lake//t///a.parquet",
    "/lake/t/a.parquet",
    "//lake/t/a.parquet",
    "s3://bucket/a//b.parquet",
    "s3a://bucket/a b%20c/é.parquet",
    "s3n://bucket/p=x%2Fy/a.parquet",
    "s3a://bucket/s3a://x",
    "hdfs://host/a//b",
    "abfss://c@a.dfs/x",
    "local:///lake/東京/😀.parquet",
    "relative/a.parquet",
)


def test_it_compiles_against_the_oldest_version(tmp_path: Path) -> None:
    """Trino 476 has other signatures; the plugin distinguishes calls by name and needs none of them."""
    home = trino_home()
    json = [home.jar(artifact) for artifact in INTERFACES if artifact.startswith("jackson")]
    compile_sources(tmp_path, [*map(fetched_jar, OLDEST), *json])
    assert (tmp_path / "lakepruner" / "trino" / "PrunedPlugin.class").is_file()


def test_the_same_sources_make_the_same_jar(tmp_path: Path) -> None:
    """So that a wheel can be verified by building it again."""
    home = trino_home()
    build(tmp_path / "again.jar", [home.jar(artifact) for artifact in INTERFACES])
    assert (tmp_path / "again.jar").read_bytes() == plugin_jar().read_bytes()


def test_plugin_and_service_make_one_key_of_a_file(tmp_path: Path) -> None:
    """However the path is written: both normalize it in the same way."""
    java = trino_java()
    harness = Path(__file__).parents[2] / "support" / "trino" / "KeysOf.java"
    subprocess.run([java.compiler, "-d", tmp_path, "-cp", plugin_jar(), harness], check=True)
    asked = [(size, path) for path in PATHS for size in (0, 4_294_967_296)]
    run = subprocess.run(
        [java.executable, "-cp", f"{plugin_jar()}{os.pathsep}{tmp_path}", "lakepruner.trino.KeysOf"],
        input="".join(f"{size} {path}\n" for size, path in asked).encode(),
        capture_output=True,
        check=True,
    )
    assert run.stdout.decode().split() == [file_key(path, size).hex() for size, path in asked]


def test_what_no_server_can_be_made_to_do(tmp_path: Path) -> None:
    """Settings that could only fail later are refused, without the token in the text; unknown forms fail no query."""
    token = tmp_path / "token"
    token.write_text("correct-horse-battery\nstaple\n", encoding="utf-8")
    java, home = trino_java(), trino_home()
    classes = os.pathsep.join(map(str, [plugin_jar(), *(home.jar(artifact) for artifact in INTERFACES)]))
    harness = Path(__file__).parents[2] / "support" / "trino" / "PluginEdges.java"
    subprocess.run([java.compiler, "-d", tmp_path, "-cp", classes, harness], check=True)
    run = subprocess.run(
        [java.executable, "-cp", f"{classes}{os.pathsep}{tmp_path}", "lakepruner.trino.PluginEdges", token],
        capture_output=True,
        check=True,
        timeout=PATIENCE,
    )
    assert sorted(run.stdout.decode().splitlines()) == [
        "ASC NULLS FIRST to 7 keeps 6 7 null",
        "ASC NULLS LAST to 7 keeps 6 7",
        "DESC NULLS FIRST to 7 keeps 7 8 null",
        "DESC NULLS LAST to 7 keeps 7 8",
        "a split is of a form that is not known: 1",
        "all splits read",
        "forgotten true",
        "nothing dropped",
        "once true",
        "other true",
        "pruner.answer-min-files must be a whole number from 0 to 999999999",
        "pruner.timeout must be above 0: pruner.enabled=false switches pruning off",
        "the predicate is of a form that is not known: 2",
        f"the token in {token} must be one line of printable ASCII without blanks",
        "together true",
    ]
    assert b"horse" not in run.stdout + run.stderr
