"""Items of lists that are read and written one by one, beside items that are kept as they are.

A list of a spec often mixes items for which the model of a job has a field (`/dev/neuron0`) with
others (`/dev/kmsg`). The others keep their indexes. Fields of a read item that no field of the job
holds are kept under the item's name instead of its index, since a writer orders such items anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.kubernetes import KeptFields, check_list
from trnsim.jobs.job import Job, KeptField
from trnsim.jobs.spec import SpecReader

Keys = tuple[str | int, ...]
_TAG: Final = re.compile(r"[\w .:/=+@-]{0,256}")
"""Source: Amazon ECS API reference, Tag."""
MODEL_TAG: Final = "trnsim:model"
"""Tag that names the model of a job."""
NAMES: Final = ("hostPath", "type", "name")
"""Fields that name an item: of a device, of a resource, of a limit or a variable."""


def item_count(reader: SpecReader, *keys: str | int) -> int:
    """Number of items of a list of mappings; an item may be a template instead.

    0 for a missing list; `check_list` raises for any other value.
    """
    return check_list(reader, *keys, may_hold_templates=True)


def with_names(
    kept_fields: Iterable[KeptField], names: Mapping[Keys, Mapping[int, str]]
) -> tuple[KeptField, ...]:
    """The kept fields, with names for indexes of the lists in `names`."""

    def named_keys(keys: Keys) -> Keys:
        for length in range(1, len(keys)):
            index = keys[length]
            name = names.get(keys[:length], {}).get(index) if isinstance(index, int) else None
            if name is not None:
                keys = (*keys[:length], name, *keys[length + 1 :])
        return keys

    return tuple(KeptField(named_keys(field.keys), field.value) for field in kept_fields)


def with_indexes(document: Any, kept_fields: Iterable[KeptField]) -> tuple[KeptField, ...]:
    """The kept fields with indexes of `document` for names, without fields of missing items."""
    fields = [(_index_keys(document, field.keys), field.value) for field in kept_fields]
    return tuple(KeptField(keys, value) for keys, value in fields if keys is not None)


def with_gaps(
    items: Sequence[dict[str, Any]], kept_fields: Iterable[KeptField], keys: Keys, name: str
) -> list[dict[str, Any]]:
    """Items of a list, with `{}` at the index of each item that is kept whole.

    Args:
        items: the items that are written.
        kept_fields: kept fields of the job; an item with a kept field `name` is kept whole.
        keys: the names and indexes that lead to the list.
        name: the field that every item has.
    """
    return KeptFields(tuple(kept_fields)).fields_below(*keys).with_gaps(items, name)


def tagged_model(reader: SpecReader, *keys: str | int, key: str, value: str) -> str:
    """The model that a tag in a list names; "" if there is none.

    Args:
        reader: the document.
        keys: the names that lead to the list.
        key: field of a tag's name.
        value: field of a tag's value.

    Raises:
        BadInput: the value is no list of tags.
    """
    for index in range(item_count(reader, *keys)):
        if reader.value(*keys, index, key) == MODEL_TAG:
            reader.take(*keys, index, key)
            return reader.text(*keys, index, value, field="model")
    return ""


def check_model(job: Job) -> None:
    """Check that a tag can hold the name of a job's model.

    Raises:
        BadInput: a tag cannot.
    """
    if not _TAG.fullmatch(job.model):
        raise BadInput(
            f"model is {job.model!r}; legal for a tag: up to 256 letters, digits, spaces and "
            "_ . : / = + - @",
            fix="name a model without other signs",
        )


def tags(job: Job, keys: Keys, *, key: str, value: str) -> list[dict[str, Any]]:
    """A list of tags with the model of a job, and `{}` for each kept tag.

    Raises:
        BadInput: the model's name is no value of a tag.
    """
    check_model(job)
    items = [{key: MODEL_TAG, value: job.model}] if job.model else []
    return with_gaps(items, job.kept_fields, keys, key)


def _index_keys(document: Any, keys: Keys) -> Keys | None:
    value = document
    indexed_keys: list[str | int] = []
    for key in keys:
        index: str | int = key
        if isinstance(value, list) and isinstance(key, str):
            index = next((i for i, item in enumerate(value) if _is_named(item, key)), len(value))
            if index == len(value):
                return None
        indexed_keys.append(index)
        value = _inner_value(value, index)
    return tuple(indexed_keys)


def _inner_value(value: Any, key: str | int) -> Any:
    if isinstance(value, list) and isinstance(key, int) and key < len(value):
        return value[key]
    return value.get(key) if isinstance(value, dict) else None


def _is_named(item: Any, name: str) -> bool:
    return isinstance(item, dict) and any(item.get(field) == name for field in NAMES)
