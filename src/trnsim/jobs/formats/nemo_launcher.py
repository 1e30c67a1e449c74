"""The main configuration of NeMo's launcher: the training, the cluster, and the variables.

Hydra puts a configuration together from files beside the main one, which its list of defaults
names: ``training: gpt3/5b`` is ``training/gpt3/5b.yaml``. Such a file is read from the folder of
the main configuration; if it is missing there, its fields are treated as a template's.

Sources: NVIDIA/NeMo-Framework-Launcher, launcher_scripts/conf/config.yaml, conf/cluster/bcm.yaml,
conf/cluster/k8s.yaml; Hydra 1.3, The Defaults List.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from trnsim.arch.catalogue import catalogue
from trnsim.errors import BadInput, SourceLine
from trnsim.jobs.correction import memory_fix, quantity_fix
from trnsim.jobs.field_fault import FieldFault
from trnsim.jobs.formats import nemo, sbatch_options
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.kubernetes_quantity import parse_quantity
from trnsim.jobs.job import Job, KeptField, Role
from trnsim.jobs.spec import JobSpec, SpecReader, TemplateValue, is_template
from trnsim.reader import SourcePlace, load_documents

_GROUPS: Final = ("training", "cluster")
_TRAINING: Final = "training"
_CHOICE: Final = re.compile(r"[A-Za-z0-9_][\w.-]*(/[A-Za-z0-9_][\w.-]*)*", re.ASCII)
"""Pattern of a choice: a path below its group, of which no part begins with a dot."""


def _choices(value: Any) -> dict[str, tuple[int, Any]]:
    """Choices of the list of defaults by group, with their places in it."""
    rows = value.get("defaults") if isinstance(value, dict) else None
    return {
        str(name): (index, choice)
        for index, row in enumerate(rows if isinstance(rows, list) else [])
        if isinstance(row, dict)
        for name, choice in row.items()
    }


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    value = root.value
    is_launcher = isinstance(value, dict) and ("stages" in value or "cluster_type" in value)
    if is_launcher and any(group in _choices(value) for group in _GROUPS):
        yield root


@dataclass
class _FileSet:
    """Lines, templates, kept fields and faults of all files of a configuration.

    Attributes:
        lines: file and line of fields of the job.
        templates: fields that are filled in later.
        kept_fields: fields that no field of the job holds.
        faults: faults of the training's file.
    """

    lines: dict[str, SourceLine] = field(default_factory=dict)
    templates: list[TemplateValue] = field(default_factory=list)
    kept_fields: list[KeptField] = field(default_factory=list)
    faults: tuple[FieldFault, ...] = ()

    def add(self, reader: SpecReader) -> None:
        """Add the fields of one more file; lines of earlier files stay."""
        self.lines = reader.lines | self.lines
        self.templates += reader.templates
        self.kept_fields += reader.kept_fields()


def _read(place: SourcePlace) -> JobSpec:
    """The spec of a main configuration with the files that it names."""
    reader, parts = SpecReader(place), _FileSet()
    job = Job(roles=(Role(),))
    stages = reader.value("stages")
    if not isinstance(stages, list) or _TRAINING in stages:
        job = _training(reader, parts, job)
    container = reader.text("container", field="roles.0.image")
    environment = tuple(_variables(reader))
    job_role = replace(job.roles[0], image=container, environment=environment)
    job = _on_cluster(reader, parts, replace(job, roles=(job_role,)))
    reader.take("defaults")
    parts.add(reader)
    job = replace(job, kept_fields=tuple(parts.kept_fields))
    templates = tuple(parts.templates)
    return JobSpec(FORMAT.name, job, reader.start, parts.lines, templates, faults=parts.faults)


def _group_document(
    reader: SpecReader, group: str, parts: _FileSet, path: str
) -> SourcePlace | None:
    """The document of a group's choice; None, with a template for `path`, if its file is missing.

    Raises:
        BadInput: the choice is no path below its group, or its file cannot be read.
    """
    root = reader.place()
    if root is None or group not in _choices(root.value):
        return None
    index, choice = _choices(root.value)[group]
    line = root.inner("defaults").inner(index).inner(group).line
    if choice is None:
        return None
    is_templated = is_template(str(choice))
    if not is_templated and not _CHOICE.fullmatch(str(choice)):
        keys = ("defaults", index, group)
        raise reader.refused(keys, f"legal: a file below {group}/, such as gpt3/5b")
    file = Path(root.document.file).parent / group / f"{choice}.yaml"
    if is_templated or not file.is_file():
        parts.lines.setdefault(path, line)
        parts.templates.append(TemplateValue(path, f"{group}: {choice}", line))
        return None
    return load_documents(file, root.document.fix)[0].root


def _training(reader: SpecReader, parts: _FileSet, job: Job) -> Job:
    """The job with its training's nodes, layout and model.

    Raises:
        BadInput: the file of the training configures no model of NeMo.
    """
    place = _group_document(reader, _TRAINING, parts, "parallelism")
    if place is None:
        return job
    if not list(nemo.FORMAT.places(place)):
        raise place.refused(
            "legal: a configuration of a training, with trainer and model",
            f"choose another file below {_TRAINING}/",
        )
    spec = nemo.FORMAT.read(place)
    parts.lines.update(spec.lines)
    parts.templates += spec.templates
    parts.kept_fields += spec.job.kept_fields
    parts.faults = spec.faults
    return replace(spec.job, kept_fields=())


def _variables(reader: SpecReader) -> Iterator[tuple[str, str]]:
    """Names and values of variables, without those whose value is null."""
    for name in reader.names("env_vars"):
        if reader.value("env_vars", name) is None:
            reader.take("env_vars", name)
        else:
            text = reader.text("env_vars", name, field=f"roles.0.environment.{name}")
            yield name, text


def _on_cluster(reader: SpecReader, parts: _FileSet, job: Job) -> Job:
    """The job with the fields that its cluster states for every job."""
    place = _group_document(reader, "cluster", parts, "roles.0.instance")
    if place is None:
        return job
    cluster = SpecReader(place)
    prefix = cluster.text("job_name_prefix", field="name")
    (job_role,) = job.roles
    partition = cluster.value("partition")
    instance = ""
    if isinstance(partition, str) and partition in catalogue().instances:
        instance = cluster.text("partition", field="roles.0.instance")
    job_role = replace(
        job_role,
        instance=instance,
        is_exclusive=bool(cluster.boolean("exclusive", field="roles.0.is_exclusive")),
        gpus=cluster.whole("gpus_per_node", field="roles.0.gpus"),
        memory_bytes=_memory_bytes(cluster),
        shm_bytes=_shm_bytes(cluster),
    )
    parts.add(cluster)
    return replace(job, name=f"{prefix}{job.name}", roles=(job_role,))


def _memory_bytes(cluster: SpecReader) -> int | None:
    """Bytes of memory of a node; None for all memory, which is spelled 0."""
    if cluster.value("mem") in (0, "0", None):
        cluster.take("mem")
        return None
    text = cluster.text("mem", field="roles.0.memory_bytes")
    try:
        return None if is_template(text) else sbatch_options.memory_bytes(text)
    except ValueError as error:
        legal = "legal: a size as 64G; units K, M, G, T"
        raise cluster.refused(("mem",), legal, memory_fix(text)) from error


def _shm_bytes(cluster: SpecReader) -> int | None:
    text = cluster.text("shm_size", field="roles.0.shm_bytes")
    size = None if not text or is_template(text) else parse_quantity(text)
    if size is None and text and not is_template(text):
        raise cluster.refused(("shm_size",), "legal: a quantity as 512Gi", quantity_fix(text))
    return None if size is None else int(size)


def _write(job: Job) -> str:
    del job
    raise BadInput(
        "--as nemo-launcher: the main configuration is read, not written",
        fix="--as nemo writes the configuration of the training that it names",
    )


FORMAT: Final = JobFormat(
    name="nemo-launcher",
    title="main configuration of NeMo's launcher",
    suffix=".yaml",
    places=_places,
    read=_read,
    write=_write,
)
