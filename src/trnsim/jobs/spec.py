"""A spec during reading: the job, the lines of its fields, and values left to a template."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from trnsim.errors import BadInput, SourceLine
from trnsim.jobs.correction import field_fix, near_name
from trnsim.jobs.device_claim import DeviceClaim
from trnsim.jobs.field_fault import FieldFault
from trnsim.jobs.job import Job, KeptField
from trnsim.jobs.parallelism import option_index
from trnsim.reader import SourcePlace

_TEMPLATE: Final = re.compile(
    r"\$\{|\$\(|\$[A-Za-z_]|\{\{|<[A-Za-z][\w -]*>|\bPLACEHOLDER|^__[A-Z][A-Z0-9_]*__$"
)
"""Text of a template: a shell's variable, Helm's and Jinja's braces, `<your-value>`, names in
capitals that a script replaces (`PLACEHOLDER_NODES`, `__NODES__`)."""
_HEADER: Final = (("apiVersion",), ("kind",))
"""Fields at the beginning of a document of Kubernetes."""
_CLAIMS: Final = {"claims", "resourceClaims"}
"""Fields of a pod and its containers. Source: k8s.io/api core/v1 PodSpec, ResourceRequirements."""


def is_template(text: str) -> bool:
    """True for a placeholder, whose value is filled in later."""
    return _TEMPLATE.search(text) is not None


class TemplateValue(NamedTuple):
    """A field whose value the file leaves to a template or a variable.

    Attributes:
        field: path of the field in the job.
        text: the text in the file, such as "${NUM_NODES}".
    """

    field: str
    text: str
    place: SourceLine


@dataclass(frozen=True)
class JobSpec:
    """A job with its places in a file.

    Attributes:
        format: name of the format, one of `trnsim.jobs.formats.FORMATS`.
        start: file and first line of the job.
        lines: file and line of the job's fields, by path such as "roles.0.environment.FI_PROVIDER";
            a missing field has the line of the mapping around it.
        templates: fields that a template fills in.
        claims: the devices that pods claim by name, by the path of their role.
        branches: blocks of a script (a loop, a condition) in words, by the path of the field that
            the block sets; it is read as if the block ran once.
        faults: fields and values that the service's description does not allow.
        read_keys: keys of fields that are both read and kept, so that they are written back as
            spelled.
    """

    format: str
    job: Job
    start: SourceLine
    lines: Mapping[str, SourceLine] = field(default_factory=dict)
    templates: tuple[TemplateValue, ...] = ()
    claims: Mapping[str, tuple[DeviceClaim, ...]] = field(default_factory=dict)
    branches: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[FieldFault, ...] = ()
    read_keys: Collection[tuple[str | int, ...]] = ()

    def line_of(self, path: str) -> SourceLine:
        """File and line of a field of the job, or of the nearest field around it."""
        while path:
            if path in self.lines:
                return self.lines[path]
            path = path.rpartition(".")[0]
        return self.start

    def option_field(self, index: int, *names: str) -> str:
        """The path of the word that states one of these options in a role's command.

        Words that a service puts before the command, such as a shell's, are counted only in
        `lines`.
        """
        path, words = f"roles.{index}.command", self.job.roles[index].command
        word_index = option_index(words, names)
        if word_index is None:
            return path
        service_words = sum(1 for line in self.lines if line.startswith(f"{path}.")) - len(words)
        return f"{path}.{word_index + max(service_words, 0)}"

    @property
    def is_of_sagemaker(self) -> bool:
        """True if SageMaker runs the job, and bills it by its own prices."""
        return self.format.startswith("sagemaker")

    def is_template(self, path: str) -> bool:
        """True if a template fills in the field."""
        return any(value.field == path for value in self.templates)

    @property
    def unknown_fields(self) -> tuple[KeptField, ...]:
        """Kept fields without a meaning to trnsim.

        Other kept fields are a header, values that a template fills in, and claims whose templates
        the file holds.
        """
        template_texts = {template.text for template in self.templates}
        known_keys = (*_HEADER, *self.read_keys)
        kept_fields = tuple(
            field
            for field in self.job.kept_fields
            if field.keys not in known_keys
            and not (isinstance(field.value, str) and field.value in template_texts)
        )
        device_claims = [claim for claims in self.claims.values() for claim in claims]
        if not device_claims or any(claim.place is None for claim in device_claims):
            return kept_fields
        return tuple(field for field in kept_fields if not _CLAIMS.intersection(field.keys))

    def with_job(self, **changes: Any) -> JobSpec:
        """The spec with other fields of its job."""
        return replace(self, job=replace(self.job, **changes))


class SpecReader:
    """A document of a spec, whose fields are read; the others are kept.

    Every method takes the keys of a value in the document, and `field`, the path of the job's
    field that it sets. A value that a template fills in is read as None and listed in `templates`;
    unless the field is a text, it is also kept, so that it is written back.

    Args:
        root: the mapping of the job in its document.
    """

    def __init__(self, root: SourcePlace) -> None:
        self._root = root
        self._read_keys: set[tuple[str | int, ...]] = set()
        self._places: dict[tuple[str | int, ...], SourcePlace | None] = {}
        self._word_counts: dict[str, int] = {}
        self.lines: dict[str, SourceLine] = {}
        self.templates: list[TemplateValue] = []
        self.claims: dict[str, tuple[DeviceClaim, ...]] = {}
        self.read_keys: set[tuple[str | int, ...]] = set()

    @property
    def start(self) -> SourceLine:
        """File and line where the job begins."""
        return self._root.line

    def place(self, *keys: str | int) -> SourcePlace | None:
        """The value under keys; None if there is none."""
        if keys not in self._places:
            self._places[keys] = self._place(keys)
        return self._places[keys]

    def _place(self, keys: tuple[str | int, ...]) -> SourcePlace | None:
        value: Any = self._root.value
        for key in keys:
            if isinstance(key, int):
                if not isinstance(value, list) or not -len(value) <= key < len(value):
                    return None
                value = value[key]
            else:
                if not isinstance(value, dict) or key not in value:
                    return None
                value = value[key]
        return SourcePlace(self._root.document, (*self._root.keys, *keys), value)

    def value(self, *keys: str | int) -> Any:
        """The value under keys without taking it; None if there is none."""
        place = self.place(*keys)
        return None if place is None else place.value

    def length(self, *keys: str | int) -> int:
        """Number of items of a list; 0 if there is none."""
        value = self.value(*keys)
        return len(value) if isinstance(value, list) else 0

    def names(self, *keys: str | int) -> tuple[str, ...]:
        """Names in a mapping; none if there is no mapping."""
        value = self.value(*keys)
        return tuple(value) if isinstance(value, dict) else ()

    def take(self, *keys: str | int, field: str = "") -> Any:
        """The value under keys, of any type; it is marked as read, and so is no kept field."""
        place = self.place(*keys)
        if place is None:
            return None
        self._read_keys.add(keys)
        if field:
            self.lines.setdefault(field, place.line)
        return place.value

    def give_back(self, *keys: str | int) -> None:
        """Keep the value under keys, although it was read."""
        self._read_keys.discard(keys)

    def text(self, *keys: str | int, field: str) -> str:
        """A text; "" if there is none. A number or a truth value is its text.

        Raises:
            BadInput: the value is a list or a mapping.
        """
        value = self.take(*keys, field=field)
        if value is None:
            return ""
        if isinstance(value, (list, dict)):
            raise self.refused(keys, "legal: text")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if is_template(text):
            self.templates.append(TemplateValue(field, text, self.lines[field]))
        return text

    def whole(self, *keys: str | int, field: str, minimum: int = 0) -> int | None:
        """A whole number from `minimum` on; None if there is none.

        Raises:
            BadInput: the value is something else.
        """
        text = self._plain(keys, field)
        if not text:
            return None
        if not re.fullmatch(r"\d{1,15}", text, re.ASCII) or int(text) < minimum:
            raise self.refused(keys, f"legal: a whole number from {minimum} on")
        return int(text)

    def number(self, *keys: str | int, field: str) -> float | None:
        """A number that is not negative; None if there is none.

        Raises:
            BadInput: the value is something else.
        """
        text = self._plain(keys, field)
        if not text:
            return None
        if not re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text, re.ASCII):
            raise self.refused(keys, "legal: a number such as 0.5")
        return float(text)

    def boolean(self, *keys: str | int, field: str) -> bool | None:
        """A truth value; None if there is none.

        Raises:
            BadInput: the value is something else.
        """
        text = self._plain(keys, field)
        if not text:
            return None
        if text.lower() not in ("true", "false"):
            raise self.refused(keys, "legal: true, false")
        return text.lower() == "true"

    def words(self, *keys: str | int, field: str) -> tuple[str, ...]:
        """A list of texts, or one text as a list of one; () if there is none.

        The items have lines of their own, as "roles.0.command.3"; words of a second list of the
        same field are numbered after those of the first.

        Raises:
            BadInput: an item is a list or a mapping.
        """
        value = self.take(*keys, field=field)
        if value is None:
            return ()
        items = value if isinstance(value, list) else [value]
        if any(isinstance(item, (list, dict)) for item in items):
            raise self.refused(keys, "legal: a list of texts")
        first = self._word_counts.get(field, 0)
        self._word_counts[field] = first + len(items)
        for index in range(len(items)) if isinstance(value, list) else ():
            place = self.place(*keys, index)
            if place is not None:
                self.lines[f"{field}.{first + index}"] = place.line
        return tuple("" if item is None else str(item) for item in items)

    def _plain(self, keys: tuple[str | int, ...], field: str) -> str:
        """The text that spells a value of another type; "" for a template, which is then kept."""
        text = self.text(*keys, field=field)
        if not is_template(text):
            return text
        self.give_back(*keys)
        return ""

    def is_templated(self, *keys: str | int, field: str) -> bool:
        """True if a template fills in the value under keys; it is then added to `templates`."""
        place = self.place(*keys)
        if place is None or not isinstance(place.value, str) or not is_template(place.value):
            return False
        self.lines.setdefault(field, place.line)
        self.templates.append(TemplateValue(field, place.value, place.line))
        return True

    def refused(self, keys: tuple[str | int, ...], why: str, fix: str = "") -> BadInput:
        """The error for the value under keys, or for its absence; `why` states the legal values."""
        place = self.place(*keys)
        name = keys[-1] if keys and isinstance(keys[-1], str) else "it"
        if place is None:
            place = SourcePlace(self._root.document, (*self._root.keys, *keys), None)
            return place.refused(why, fix or self.renaming(*keys) or field_fix(name, why, None))
        return place.refused(why, fix or field_fix(name, why, place.value))

    def renaming(self, *keys: str | int) -> str:
        """The fix of a missing field: to rename a field with almost its name; "" without one."""
        if self.place(*keys) is not None or not keys:
            return ""
        similar_name = near_name(str(keys[-1]), self.names(*keys[:-1]))
        place = self.place(*keys[:-1], similar_name) if similar_name else None
        if place is None:
            return ""
        return f"rename {similar_name}, at line {place.line.line}, to {keys[-1]}"

    def kept_fields(self) -> tuple[KeptField, ...]:
        """Fields that were not read: text, numbers, truth values, and empty lists and mappings."""
        return tuple(self._fields_below((), self._root.value))

    def _fields_below(self, keys: tuple[str | int, ...], value: Any) -> list[KeptField]:
        if keys in self._read_keys:
            return []
        if isinstance(value, dict) and value:
            items: list[tuple[str | int, Any]] = list(value.items())
        elif isinstance(value, list) and value:
            items = list(enumerate(value))
        else:
            return [KeptField(keys, value)]
        return [field for key, item in items for field in self._fields_below((*keys, key), item)]
