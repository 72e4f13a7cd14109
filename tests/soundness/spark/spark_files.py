"""Files that Spark has written, kept so that other engines can be tested on them without Spark.

`python -m tests.soundness.spark.spark_files` rewrites them: for each way of Spark's a few with the column by itself
and in a struct. Their numbers are drawn like those of other files.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.soundness.parquet_type_kinds import Family, Way, Writer

ROOT = Path(__file__).parents[2] / "fixtures" / "spark_files"
FILES = 3
_PLACES = {False: "alone", True: "nested"}


def with_files_of_spark(families: Sequence[Family]) -> tuple[Family, ...]:
    """Families with the ways of the kept files."""
    return tuple(
        replace(each, ways=(*each.ways, *map(_kept, sorted(ROOT.glob(f"{each.name}/*")))))
        for each in families
    )


def _kept(folder: Path) -> Way:
    """A way that copies the files of a folder, whatever is to be written."""
    return Way(folder.name, _numbers, _copied(folder))


def _numbers(numbers: list[int]) -> pa.Array[Any]:
    return pa.array(numbers)


def _copied(folder: Path) -> Writer:
    def write(path: Path, values: pa.Array[Any], _: str) -> Path:
        nested = isinstance(values, pa.StructArray)
        numbers = values.field(0) if nested else values
        chosen = folder / _PLACES[nested] / f"{numbers[0].as_py() % FILES}.parquet"
        return Path(shutil.copyfile(chosen, path))

    return write


def main() -> None:
    """Have Spark write the files."""
    from tests.soundness.spark.spark_types import families
    from tests.support.spark.oracle import start_spark

    spark = start_spark(Path(tempfile.mkdtemp()))
    shutil.rmtree(ROOT, ignore_errors=True)
    rng = random.Random(14)
    for family in {each.name: each for each in families(spark)}.values():
        for way in family.ways:
            if " by Spark" in way.name:
                _write(rng, family, way)
    spark.stop()


def _write(rng: random.Random, family: Family, way: Way) -> None:
    for nested, place in _PLACES.items():
        folder = ROOT / family.name / way.name / place
        folder.mkdir(parents=True)
        for number in range(FILES):
            values = way.values([family.draw(rng, number) for _ in range(3)])
            column = pa.StructArray.from_arrays([values], ["y"]) if nested else values
            way.write(folder / f"{number}.parquet", column, "y" if nested else "x")


if __name__ == "__main__":
    main()
