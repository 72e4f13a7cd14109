"""What stands of a build that ended early: said in a note of the exception, and no empty index is left behind."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pruner.errors import IndexDefinitionError, PrunerError
from pruner.metadata import receipts
from pruner.showing.words import are, counted

if TYPE_CHECKING:
    from collections.abc import Generator

    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.table import MetadataTable


@contextmanager
def what_stands(metadata: MetadataTable, created: IndexDefinition | None = None) -> Generator[None]:
    """Note what stands when a build is interrupted or fails.

    Args:
        metadata: the metadata table.
        created: the index that is defined for this build: it is dropped again unless something of it was finished.
    """
    try:
        yield
    except IndexDefinitionError:
        raise  # a refusal: nothing was begun
    except (KeyboardInterrupt, PrunerError) as ended:
        try:
            note = _of_new_index(metadata, created) if created is not None else _of_refresh(metadata)
        except PrunerError:
            note = "what stands cannot be read now: see pruner status"
        if note is not None:
            ended.add_note(note)
        raise


def _of_refresh(metadata: MetadataTable) -> str | None:
    waiting = sum(receipt.indexed for receipt in receipts.receipts(metadata.store))
    if not waiting:
        return None
    return f"{counted(waiting, 'record')} {are(waiting)} finished: the next refresh takes them up"


def _of_new_index(metadata: MetadataTable, definition: IndexDefinition) -> str:
    name, state = definition.name, metadata.state()
    if all(each.uuid != definition.uuid for each in state.definitions):
        return f"index {name} was not created"
    if state.segments_of(definition):
        return f"index {name} was created"
    finished = (entry for receipt in receipts.receipts(metadata.store) for entry in receipt.records)
    if any(entry.definition == definition.uuid for entry in finished):
        return f"index {name} is defined: refresh it to go on, or drop it"
    try:
        metadata.commit(lambda newest: newest.without_definition(definition))
    except PrunerError:
        return f"index {name} is defined and has no records: refresh it, or drop it"
    return f"index {name} was not created"
