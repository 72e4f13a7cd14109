"""The report of the probe on an executor; run here, where everything is installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

import pruner
from pruner.indexes.column_stats import COLUMN_STATS
from pruner.metadata import MetadataTable
from pruner.pipeline.batches import BuildJob, Target, work_table
from pruner.pipeline.requests import BuildRequest, table_bytes
from pruner.pipeline.spark import KERNEL_NEEDS, _probe, needed_versions, reason_of
from pruner.pipeline.spark_worker import SparkJob
from pruner.storage.opening import open_store


def sent_job(tmp_path: Path) -> tuple[bytes, Path]:
    root = tmp_path / "t"
    root.mkdir()
    pq.write_table(pa.table({"x": [1]}), root / "a.parquet")
    table = pruner.open_table(root)
    table.create_index("i", on="x", build=False)
    metadata = MetadataTable(open_store(table.index_uri))
    snapshot = table.snapshot().data
    (definition,) = metadata.state().definitions
    target = Target(definition, BuildRequest(COLUMN_STATS, snapshot.schema.find(("x",)), {}, "i"))
    import numpy as np

    job = BuildJob(metadata, "parquet", {}, (target,), work_table(snapshot, np.arange(1)))
    part = f"staging/{'0' * 32}"
    metadata.store.put_new(part, table_bytes(job.work))
    return msgspec.json.encode(SparkJob.of(job, (part,), isolated=False)), Path(table.index_uri) / part


def asked(sent: bytes, **changes: Any) -> dict[str, Any]:
    wanted = {"versions": needed_versions(), "pruner": pruner.__version__, "kinds": {"column_stats": 1}}
    probe: Callable[[Any], Any] = _probe(json.dumps({**wanted, **changes}), sent)
    (answer,) = list(probe(iter([None])))
    return json.loads(answer.column(0)[0].as_py())


def test_everything_is_there(tmp_path: Path) -> None:
    sent, _ = sent_job(tmp_path)
    assert asked(sent) == {"missing": [], "unreachable": None}


def test_what_is_too_old_or_of_another_version_is_named(tmp_path: Path) -> None:
    sent, _ = sent_job(tmp_path)
    versions = {"numpy": "999.1", "pyarrow": "1.0", "no-such-package": "2.0"}
    missing = asked(sent, versions=versions, pruner="0.0.1")["missing"]
    assert missing[0].startswith("numpy 999.1 (they have ")
    assert missing[1:] == ["no-such-package 2.0", f"pruner 0.0.1 (they have {pruner.__version__})"]
    kinds = asked(sent, kinds={"column_stats": 99, "unheard_of": 1})["missing"]
    assert kinds == ["version 99 of the index type column_stats", "the package of the index type unheard_of"]


def test_locations_that_executors_cannot_read_are_named(tmp_path: Path) -> None:
    sent, part = sent_job(tmp_path)
    (tmp_path / "t" / "a.parquet").unlink()
    assert f"read {tmp_path / 't' / 'a.parquet'}: the table must lie" in asked(sent)["unreachable"]
    part.unlink()
    assert "see the metadata table at" in asked(sent)["unreachable"]


def test_every_dependency_of_the_kernel_has_a_version() -> None:
    assert set(needed_versions()) == set(KERNEL_NEEDS)
    assert all(version[0].isdigit() for version in needed_versions().values())


def test_the_reason_is_one_line() -> None:
    raised = "An error\n  File x\npruner.errors.StorageError: no space left.\n\n\tat org.apache.spark"
    assert reason_of(RuntimeError(raised)) == "pruner.errors.StorageError: no space left"
    assert reason_of(RuntimeError("first\nsecond")) == "first"
    assert reason_of(RuntimeError()) == "RuntimeError"
