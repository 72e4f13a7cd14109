"""Records decoded field by field equal what fastavro reads, and damaged ones are refused or read identically."""

from __future__ import annotations

import io
import math
from random import Random
from typing import Any

import fastavro
import pytest

from pruner.tables.avro.columns import NotColumnarError, decode_field

VALUES: dict[str, tuple[Any, ...]] = {
    "null": (None,),
    "boolean": (True, False),
    "int": (0, -1, 2**31 - 1, -(2**31), 64),
    "long": (0, -1, 2**63 - 1, -(2**63), 8192),
    "float": (0.0, -0.0, 1.5, math.inf),
    "double": (0.0, -0.0, 1e300, -math.inf),
    "string": ("", "é", "x" * 200, "\0", "\N{GRINNING FACE}"),
    "bytes": (b"", b"\xff" * 300),
}


def _type(random: Random, names: list[str], depth: int = 0) -> Any:
    kind = random.choice([*VALUES, "record", "union"] if depth < 3 else list(VALUES))
    if kind == "record":
        return _record(random, names, depth, random.randint(0, 3))
    if kind == "union":
        return [*random.sample(list(VALUES), random.randint(1, 3)), _record(random, names, depth, 1)]
    return kind


def _record(random: Random, names: list[str], depth: int, count: int) -> dict[str, Any]:
    names.append(f"R{len(names)}")
    own = names[-1]
    fields = [{"name": f"f{number}", "type": _type(random, names, depth + 1)} for number in range(count)]
    return {"type": "record", "name": own, "fields": fields}


def _value(random: Random, type_: Any) -> Any:
    if isinstance(type_, list):
        chosen: Any = random.choice(type_)
        return (
            (chosen["name"], _value(random, chosen)) if isinstance(chosen, dict) else _value(random, chosen)
        )
    if isinstance(type_, dict):
        return {field["name"]: _value(random, field["type"]) for field in type_["fields"]}
    return random.choice(VALUES[type_])


def _written(random: Random, schema: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, _value(random, schema))
    return buffer.getvalue()


def _read(record: bytes, schema: Any) -> Any:
    """What fastavro reads; None if it does not end with the bytes."""
    buffer = io.BytesIO(record)
    try:
        found = fastavro.schemaless_reader(buffer, schema, None, return_record_name=True)
    except Exception:
        return None
    return found if buffer.tell() == len(record) else None


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(40))
def test_fields_are_what_fastavro_reads(seed: int) -> None:
    random = Random(seed)
    schema: Any = fastavro.parse_schema(_record(random, [], 0, 4))
    records = [_written(random, schema) for _ in range(random.randint(0, 12))]
    expected: list[Any] = [_read(record, schema) for record in records]
    for field in schema["fields"]:
        # As text, so that -0.0 differs from 0.0.
        found = decode_field(records, schema, field["name"])
        assert repr(found) == repr([each[field["name"]] for each in expected])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_record_is_refused_or_read_alike(seed: int) -> None:
    random = Random(seed)
    schema: Any = fastavro.parse_schema(_record(random, [], 0, 4))
    records = [_written(random, schema) + bytes([random.randrange(256)]) * (at == 1) for at in range(4)]
    damaged = bytearray(records[2])
    if damaged:
        damaged[random.randrange(len(damaged))] ^= 1 << random.randrange(8)
    records[2] = bytes(damaged)
    expected: list[Any] = [_read(record, schema) for record in records]
    for field in schema["fields"]:
        with pytest.raises(NotColumnarError):
            decode_field(records, schema, field["name"])
        if expected[2] is not None:
            found = decode_field([records[0], records[2]], schema, field["name"])
            assert repr(found[1]) == repr(expected[2][field["name"]])
        else:
            with pytest.raises(NotColumnarError):
                decode_field([records[0], records[2]], schema, field["name"])
