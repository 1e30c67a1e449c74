"""The common parts of Kubernetes' manifests: kind, group, name, kept fields, defaults.

Kubernetes demands fields that the model of a job lacks: the `Defaults` of a manifest. A reader
passes over a default with its usual value, and keeps it with any other value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.correction import quantity_fix
from trnsim.jobs.formats.kubernetes_quantity import LEGAL, parse_quantity
from trnsim.jobs.formats.writing import in_order, with_kept_fields, yaml_spec
from trnsim.jobs.job import Job, KeptField
from trnsim.jobs.spec import JobSpec, SpecReader, is_template
from trnsim.reader import SourcePlace

Keys = tuple[str | int, ...]
Defaults = Iterable[tuple[Keys, Any]]
"""Fields and their usual values."""

_MOST_NAME: Final = 63
"""Characters of a name. Source: RFC 1123 label names, kubernetes.io docs, Object Names and IDs."""
_MODEL: Final = ("metadata", "annotations", "trnsim/model")
"""Our own annotation, as no manifest has a field for the model."""
MOST_COUNT: Final = 2**31 - 1
"""Replicas are of type int32. Source: k8s.io/api apps/v1 and batch/v1."""


def is_manifest(value: Any, group: str, kinds: Collection[str]) -> bool:
    """True if a value is a manifest of a kind and an API group; "" for the core group."""
    if not isinstance(value, dict):
        return False
    kind, version = value.get("kind"), value.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str) or kind not in kinds:
        return False
    return version.rpartition("/")[0] == group


def manifests(document: SourcePlace, group: str, kinds: Collection[str]) -> Iterator[SourcePlace]:
    """The document, if it is a manifest of a kind and an API group."""
    if is_manifest(document.value, group, kinds):
        yield document


def check_mapping(reader: SpecReader, *keys: str | int) -> None:
    """Refuse a value that is no mapping, unless it is missing or a template.

    Raises:
        BadInput: the value is a text, a number, a truth value or a list.
    """
    value = reader.value(*keys)
    is_templated = isinstance(value, str) and is_template(value)
    if value is not None and not isinstance(value, dict) and not is_templated:
        raise reader.refused(keys, "legal: a mapping")


def check_list(reader: SpecReader, *keys: str | int, may_hold_templates: bool = False) -> int:
    """Number of mappings in the list under keys; 0 where there is nothing, or a template.

    With `may_hold_templates` an item may be a template as well.

    Raises:
        BadInput: the value or an item is something else.
    """
    value = reader.value(*keys)
    if value is None or (isinstance(value, str) and is_template(value)):
        return 0
    if not isinstance(value, list):
        raise reader.refused(keys, "legal: a list")
    for index, item in enumerate(value):
        is_templated = may_hold_templates and isinstance(item, str) and is_template(item)
        if not isinstance(item, dict) and not is_templated:
            raise reader.refused((*keys, index), "legal: a mapping")
    return len(value)


def stated_count(reader: SpecReader, *keys: str | int, field: str) -> int | None:
    """A whole number, without taking it; None if there is none, or a template fills it in.

    Raises:
        BadInput: the value is something else.
    """
    place = reader.place(*keys)
    if place is None or place.value is None or reader.is_templated(*keys, field=field):
        return None
    is_integer = isinstance(place.value, int) and not isinstance(place.value, bool)
    if not is_integer or not 0 <= place.value <= MOST_COUNT:
        raise reader.refused(keys, f"legal: a whole number from 0 to {MOST_COUNT:,}")
    reader.lines.setdefault(field, place.line)
    return int(place.value)


def count(reader: SpecReader, *keys: str | int, field: str, minimum: int = 0) -> int | None:
    """A whole number; None if there is none, or a template fills it in.

    Raises:
        BadInput: the value is something else, or below `minimum`.
    """
    number = stated_count(reader, *keys, field=field)
    if number is None:
        return None
    if number < minimum:
        raise reader.refused(keys, f"legal: a whole number from {minimum} to {MOST_COUNT:,}")
    reader.take(*keys)
    return number


def quantity(reader: SpecReader, *keys: str | int, field: str) -> Fraction | None:
    """A quantity, without taking it; None if there is none, or a template fills it in.

    Raises:
        BadInput: the value is no quantity.
    """
    value = reader.value(*keys)
    if value is None or reader.is_templated(*keys, field=field):
        return None
    number = parse_quantity(value)
    if number is None:
        raise reader.refused(keys, f"legal: {LEGAL}", quantity_fix(value))
    place = reader.place(*keys)
    if place is not None:
        reader.lines.setdefault(field, place.line)
    return number


def deadline_s(reader: SpecReader, *keys: str | int) -> float | None:
    """Seconds of an `activeDeadlineSeconds`; None if there is none."""
    seconds = count(reader, *keys, "activeDeadlineSeconds", field="time_limit_s", minimum=1)
    return None if seconds is None else float(seconds)


def spec_of(name: str, reader: SpecReader, job: Job, defaults: Defaults) -> JobSpec:
    """The spec of a job; defaults are ignored, and fields that `reader` has not read are kept.

    Kept fields are in the order of their keys, as the order of a mapping's fields has no meaning.
    """
    for keys, value in defaults:
        if reader.value(*keys) == value:
            reader.take(*keys)
    model = reader.text(*_MODEL, field="model")
    job = replace(job, model=model, kept_fields=in_order(reader.kept_fields()))
    return JobSpec(
        name,
        job,
        reader.start,
        reader.lines,
        tuple(reader.templates),
        reader.claims,
        read_keys=frozenset(reader.read_keys),
    )


@dataclass(frozen=True)
class KeptFields:
    """Kept fields below a key of a document.

    Attributes:
        fields: the fields; their keys begin below that key.
    """

    fields: tuple[KeptField, ...]

    def fields_below(self, *keys: str | int) -> KeptFields:
        """The kept fields below keys."""
        size = len(keys)
        return KeptFields(
            tuple(
                KeptField(field.keys[size:], field.value)
                for field in self.fields
                if field.keys[:size] == keys and len(field.keys) > size
            )
        )

    def has_field(self, *keys: str | int) -> bool:
        """True if a field is kept under or below keys."""
        return any(field.keys[: len(keys)] == keys for field in self.fields)

    def value(self, *keys: str | int, default: Any = None) -> Any:
        """Value of the field under keys; `default` if it is not kept."""
        values = (field.value for field in self.fields if field.keys == keys)
        return next(values, default)

    def with_gaps(self, items: Iterable[Any], name: str = "") -> list[Any]:
        """A list of the items, with `{}` at the indexes of kept items.

        Args:
            items: the items that are written.
            name: name of a kept field that shows that an item is kept, as no written item has it;
                "" if any kept field does.
        """
        taken_indexes = {
            field.keys[0]
            for field in self.fields
            if isinstance(field.keys[0], int) and (not name or field.keys[1:2] == (name,))
        }
        result: list[Any] = []
        for item in items:
            while len(result) in taken_indexes:
                result.append({})
            result.append(item)
        return result


def label_name(name: str, default: str) -> str:
    """A name in Kubernetes' legal characters; `default` if none is left; a template is unchanged.

    Source: kubernetes.io docs, Object Names and IDs, RFC 1123 label names.
    """
    if is_template(name):
        return name
    legal = re.sub("[^a-z0-9-]+", "-", name.lower())
    return legal.strip("-")[:_MOST_NAME].rstrip("-") or default


def stated_replicas(job: Job, index: int, kept_fields: KeptFields, *templates: Keys) -> int | None:
    """Replicas of a role; None where a kept field under one of the keys `templates` fills them in.

    Raises:
        BadInput: nothing states the replicas, or they are too many.
    """
    role = job.roles[index]
    if role.replicas is None and not any(kept_fields.has_field(*keys) for keys in templates):
        raise BadInput(
            f"role {role.name!r}: the number of replicas is not stated",
            fix="state it in the spec that is read",
        )
    if role.replicas is not None and role.replicas > MOST_COUNT:
        raise BadInput(
            f"role {role.name!r}: {role.replicas:,} replicas; at most {MOST_COUNT:,}",
            fix="write several jobs",
        )
    return role.replicas


def deadline(job: Job) -> int | None:
    """The time limit of a job in whole seconds.

    Raises:
        BadInput: the limit has a part of a second, or is below a second.
    """
    if job.time_limit_s is None:
        return None
    if job.time_limit_s != int(job.time_limit_s) or job.time_limit_s < 1:
        raise BadInput(
            f"time_limit_s is {job.time_limit_s:g}; legal: whole seconds from 1 on",
            fix=f"set {max(1, math.ceil(job.time_limit_s))} s, or no limit",
            source="k8s.io/api batch/v1 JobSpec, activeDeadlineSeconds",
        )
    return int(job.time_limit_s)


def manifest_text(job: Job, document: dict[str, Any], defaults: Defaults) -> str:
    """A manifest as YAML, with the job's kept fields at their places, and then the defaults."""
    kept_fields = KeptFields(job.kept_fields)
    head = {
        "apiVersion": kept_fields.value("apiVersion", default=document["apiVersion"]),
        "kind": kept_fields.value("kind", default=document["kind"]),
    }
    manifest = with_kept_fields({**document, **head}, job.kept_fields)
    if job.model:
        with_kept_fields(manifest, [KeptField(_MODEL, job.model)])
    return yaml_spec(
        with_kept_fields(manifest, [KeptField(keys, value) for keys, value in defaults])
    )
