"""Configurations of training programs as jobs: nodes, layout, batch, sizes of the model.

NeMo and NxD Training state the same under different keys; a `TrainingConfigKeys` has the keys of
one program. A configuration does not state how its program is started: comments of a written
configuration name instances, command and variables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.correction import time_fix, time_text
from trnsim.jobs.field_fault import FieldFault
from trnsim.jobs.formats import sbatch_options
from trnsim.jobs.formats.interpolation import ConfigReader, Keys
from trnsim.jobs.formats.writing import with_kept_fields, yaml_spec
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.parallelism import Parallelism, options_of, parallelism_in
from trnsim.jobs.spec import JobSpec, is_template
from trnsim.reader import SourcePlace

SIZES: Final[dict[str, Keys]] = {
    "hidden_size": ("model", "hidden_size"),
    "num_hidden_layers": ("model", "num_layers"),
    "num_attention_heads": ("model", "num_attention_heads"),
    "intermediate_size": ("model", "ffn_hidden_size"),
    "max_position_embeddings": ("model", "max_position_embeddings"),
    "head_dim": ("model", "kv_channels"),
}
"""Keys of the model's sizes, by the names that a config.json has for them."""
_LLAMA: Final[dict[Keys, tuple[str, ...]]] = {
    ("model", "normalization"): ("rmsnorm",),
    ("model", "activation"): ("swiglu", "fast-swiglu"),
    ("model", "position_embedding_type"): ("rope",),
}
"""Fields that make a Megatron model a Llama, and their values for it; a writer takes the first."""
_LEAST_SIMILARITY: Final = 0.85
"""Minimum similarity (difflib) of a misspelled key to the key that it means."""
_EXPERTS: Final = "num_local_experts"


@dataclass(frozen=True, kw_only=True)
class TrainingConfigKeys:
    """The keys of a kind of configuration.

    Attributes:
        counts: keys of whole numbers, by field of `Parallelism`.
        booleans: keys of truth values, by field of `Parallelism`.
        choices: the keys of a name that sets fields of `Parallelism`, and the values of these
            fields by name; by the fields.
        sequence: keys of the tokens of a sequence of data, which may be fewer than the model's
            maximum.
        model: keys of the model's configuration file; () for none.
        sizes: keys of the model's sizes, by name in a config.json.
        sections: names of the mappings that every such file has.
        has_run_section: whether a file may have a section `run` with a name and a time limit.
    """

    name: str
    counts: dict[str, Keys]
    booleans: dict[str, Keys] = field(default_factory=dict)
    choices: dict[tuple[str, ...], tuple[Keys, dict[Any, tuple[Any, ...]]]] = field(
        default_factory=dict
    )
    sequence: Keys = ()
    model: Keys = ()
    sizes: dict[str, Keys] = field(default_factory=dict)
    sections: tuple[str, ...] = ()
    has_run_section: bool = False


def read_config(place: SourcePlace, keys: TrainingConfigKeys) -> JobSpec:
    """The spec of a configuration.

    Raises:
        BadInput: a value is not legal.
    """
    reader = ConfigReader(place)
    nodes = reader.value("trainer", "num_nodes")
    if isinstance(nodes, int) and nodes < 1:
        raise reader.refused(("trainer", "num_nodes"), "legal: a whole number from 1 on")
    role = Role(
        replicas=reader.read_count(("trainer", "num_nodes"), "roles.0.replicas"),
        processes=reader.read_count(("trainer", "devices"), "roles.0.processes"),
    )
    for name, path in {"replicas": "num_nodes", "processes": "devices"}.items():
        reader.lines.setdefault(f"roles.0.{name}", _line(reader, ("trainer", path)))
    run = ("run",) if keys.has_run_section and isinstance(reader.value("run"), dict) else ()
    for section in keys.sections:
        if reader.value(section) == {}:
            reader.take(section)
    parallelism = _parallelism(reader, keys)
    job = Job(
        name=reader.text(*run, "name", field="name"),
        roles=(role,),
        time_limit_s=_time_limit_s(reader) if run else None,
        model=reader.text(*keys.model, field="model") if keys.model else "",
        config=tuple(_sizes(reader, keys)),
        parallelism=parallelism,
        kept_fields=reader.sorted_kept_fields(),
    )
    faults = tuple(_near_keys(reader, keys))
    for fault in faults:
        if (place_of_fault := reader.place(*fault.keys)) is not None:
            reader.lines[fault.path] = place_of_fault.line
    return JobSpec(
        keys.name, job, reader.start, reader.lines, tuple(reader.templates), faults=faults
    )


def _near_keys(reader: ConfigReader, keys: TrainingConfigKeys) -> Iterator[FieldFault]:
    """Faults of keys that almost equal a key that the program reads and the file lacks.

    The programs ignore keys that they do not know, so other unknown keys are no fault.
    """
    paths = [*keys.counts.values(), *keys.booleans.values(), *keys.sizes.values(), keys.sequence]
    paths += [path for path, _ in keys.choices.values()]
    paths += [keys.model, ("trainer", "num_nodes"), ("trainer", "devices")]
    for section in sorted({path[:-1] for path in paths if path}):
        names = reader.names(*section)
        legal = {path[-1] for path in paths if path and path[:-1] == section}
        absent = sorted(legal.difference(names))
        for name in names:
            similar_names = get_close_matches(str(name)[:100], absent, 1, _LEAST_SIMILARITY)
            if similar_names and name not in legal:
                keys_of_name = (*section, name)
                reason = f"{'.'.join(map(str, keys_of_name))} is no key that the program reads"
                fix = f"perhaps {similar_names[0]}; the program passes over what it does not know"
                yield FieldFault(keys_of_name, "ignored-field", reason, fix)


def _line(reader: ConfigReader, keys: Keys) -> Any:
    place = reader.place(*keys) or reader.place(*keys[:-1])
    return reader.start if place is None else place.line


def _parallelism(reader: ConfigReader, keys: TrainingConfigKeys) -> Parallelism:
    values: dict[str, Any] = {}
    for name, path in keys.counts.items():
        is_of_data = name == "sequence" and isinstance(reader.value(*keys.sequence), int)
        value_keys = keys.sequence if is_of_data else path
        values[name] = reader.read_count(value_keys, f"parallelism.{name}")
    for name, path in keys.booleans.items():
        target = reader.target_keys(path)
        values[name] = reader.boolean(*target, field=f"parallelism.{name}")
        if target != path:
            reader.give_back(*target)
    for names, (path, meanings) in keys.choices.items():
        meaning = reader.choice(path, f"parallelism.{names[0]}", meanings)
        values |= dict(zip(names, meaning or (None,) * len(names), strict=True))
        for name in names[1:]:
            if path_line := reader.place(*path):
                reader.lines.setdefault(f"parallelism.{name}", path_line.line)
    if "zero" in keys.booleans and values["zero"] is not None:
        values["zero"] = int(values["zero"])
    return Parallelism(**values)


def _sizes(reader: ConfigReader, keys: TrainingConfigKeys) -> Iterator[tuple[str, Any]]:
    sizes = {
        name: number
        for name, path in keys.sizes.items()
        if (number := reader.read_count(path, f"config.{name}")) is not None
    }
    is_llama = sizes and all(reader.value(*path) in names for path, names in _LLAMA.items())
    if is_llama:
        for path, names in _LLAMA.items():
            if reader.value(*path) == names[0]:
                reader.take(*path)
        yield "model_type", "mixtral" if _EXPERTS in sizes else "llama"
    yield from sizes.items()


def _time_limit_s(reader: ConfigReader) -> float | None:
    keys = ("run", "time_limit")
    text = reader.text(*keys, field="time_limit_s")
    if not text or is_template(text):
        return None
    try:
        return sbatch_options.time_limit_s(text)
    except ValueError as error:
        legal = "legal: a time of Slurm, days-hours:minutes:seconds"
        raise reader.refused(keys, legal, time_fix(text)) from error


class _Document:
    """A document that is filled with a job's values, except under the keys of kept fields."""

    def __init__(self, job: Job) -> None:
        self._kept_keys = {field.keys for field in job.kept_fields}
        self.values: dict[str, Any] = {}

    def put(self, path: Keys, value: Any) -> None:
        """Put a value at its keys; None and "" are no value."""
        if value is None or value == "" or path in self._kept_keys:
            return
        inner = self.values
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = None if value is _NULL else value


def write_config(job: Job, keys: TrainingConfigKeys) -> str:
    """The configuration of a job.

    Raises:
        BadInput: a configuration cannot express the job.
    """
    _check(job, keys)
    document = _Document(job)
    kept_values = {field.keys: field.value for field in job.kept_fields}
    is_run = job.time_limit_s is not None or any(path[0] == "run" for path in kept_values)
    document.put(("run", "name") if keys.has_run_section and is_run else ("name",), job.name)
    if job.time_limit_s is not None and keys.has_run_section:
        document.put(("run", "time_limit"), time_text(int(job.time_limit_s)))
    (role,) = job.roles
    document.put(("trainer", "num_nodes"), role.replicas)
    document.put(("trainer", "devices"), role.processes)
    for path, value in _layout_values(_stated_layout(job).stated_fields, keys, kept_values):
        document.put(path, value)
    if keys.model:
        document.put(keys.model, job.model)
    for name, value in job.config:
        if name == "model_type":
            for path, names in _LLAMA.items():
                document.put(path, names[0])
        else:
            document.put(keys.sizes[name], value)
    for section in keys.sections:
        document.values.setdefault(section, {})
    comments = "".join(f"# started with {fact}\n" for fact in _start_facts(job, keys))
    return comments + yaml_spec(with_kept_fields(document.values, job.kept_fields))


def _stated_layout(job: Job) -> Parallelism:
    """The layout that the job's fields and the options of its command state."""
    return job.parallelism.with_defaults(parallelism_in(options_of(job.roles[0].command)))


def _layout_values(
    layout_fields: dict[str, Any],
    keys: TrainingConfigKeys,
    kept_values: dict[tuple[str | int, ...], Any],
) -> Iterator[tuple[Keys, Any]]:
    """Keys and values of a layout's fields."""
    for name, path in keys.counts.items():
        is_of_data = name == "sequence" and any(path[:end] in kept_values for end in (1, len(path)))
        yield keys.sequence if is_of_data else path, layout_fields.get(name)
    for name, path in keys.booleans.items():
        yield path, None if name not in layout_fields else bool(layout_fields[name])
    for names, (path, meanings) in keys.choices.items():
        values = tuple(layout_fields.get(name) for name in names)
        if path in kept_values or values == (None,) * len(names):
            continue
        text = next((text for text, meaning in meanings.items() if meaning == values), _NONE)
        if text is _NONE:
            words = ", ".join(f"{name} {layout_fields.get(name)}" for name in names)
            reason = f"{'.'.join(path)} has no name for it"
            raise _refusal(keys, words, reason, f"leave out {names[0]}, or state another")
        yield path, _NULL if text is None else text


_NONE: Final = object()
"""No name has the layout's values."""
_NULL: Final = object()
"""The value null of a field."""


def _check(job: Job, keys: TrainingConfigKeys) -> None:
    """Refuse a job that a configuration cannot express."""
    if job.kind is not JobKind.TRAINING:
        subject = f"kind is {job.kind.value}"
        raise _refusal(keys, subject, "it configures a training", "choose another --as")
    if len(job.roles) != 1:
        subject = f"{len(job.roles)} roles"
        raise _refusal(
            keys, subject, "all nodes run the same program", "--as sbatch or --as jobset"
        )
    if job.copies != 1:
        fix = "write it once, and start it in an array of --as sbatch"
        raise _refusal(keys, f"{job.copies} copies", "it configures one run", fix)
    if job.roles[0].processes == 0 or job.roles[0].replicas == 0:
        raise _refusal(keys, "no rank", "a training has one at least", "state one or more")
    limit_s = job.time_limit_s
    if limit_s is not None and (limit_s % 1 or limit_s <= 0):
        fix = f"set {max(1, math.ceil(limit_s))} s, or no limit"
        raise _refusal(keys, f"time_limit_s is {limit_s}", "whole seconds from 1", fix)
    _check_layout(job, keys)


def _check_layout(job: Job, keys: TrainingConfigKeys) -> None:
    expressible = {
        *keys.counts,
        *keys.booleans,
        *(name for names in keys.choices for name in names),
    }
    layout = _stated_layout(job).stated_fields
    unsupported = [name for name in layout if name not in expressible]
    unsupported += [name for name, _ in job.config if name not in (*keys.sizes, "model_type")]
    if unsupported:
        subject = ", ".join(unsupported)
        raise _refusal(keys, subject, "no key states it", f"leave out {subject}")
    if "zero" in keys.booleans and layout.get("zero", 0) > 1:
        subject = f"zero {layout['zero']}"
        raise _refusal(keys, subject, "it has ZeRO-1 or none", "state zero 1 or 0")
    model_type = dict(job.config).get("model_type", "llama")
    if model_type not in ("llama", "mixtral"):
        subject = f"model_type {model_type}"
        raise _refusal(keys, subject, "legal: llama, mixtral", "state one of them")


def _start_facts(job: Job, keys: TrainingConfigKeys) -> Iterator[str]:
    """Facts of the job that the configuration has no key for, as texts of comments."""
    for name in ("region", "purchase", *(() if keys.model else ("model",))):
        if getattr(job, name):
            yield f"{name} {_one_line(getattr(job, name))}"
    if job.time_limit_s is not None and not keys.has_run_section:
        yield f"a limit of {time_text(int(job.time_limit_s))}"
    (role,) = job.roles
    default = Role(name=role.name)
    for role_field in fields(role):
        value = getattr(role, role_field.name)
        if role_field.name in ("replicas", "processes") or value == getattr(
            default, role_field.name
        ):
            continue
        if role_field.name == "environment":
            yield from (_one_line(f"{name}={text}") for name, text in value)
        else:
            text = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
            yield f"{role_field.name} {_one_line(text)}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _refusal(keys: TrainingConfigKeys, subject: str, reason: str, fix: str) -> BadInput:
    return BadInput(f"{keys.name} cannot express the job: {subject}: {reason}", fix=fix)
