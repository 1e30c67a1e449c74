"""Scripts of sbatch: options, exported variables and the command that srun or a launcher starts.

A script states the job's requests to Slurm. Slurm has no option for EFA, huge pages and the region,
which the cluster has: a written script names them in a comment.
Source: Slurm, sbatch(1) and srun(1); pyxis, README, for ``--container-image``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from trnsim.arch.catalogue import catalogue
from trnsim.errors import SourceLine
from trnsim.jobs.correction import count_fix, memory_fix, time_fix
from trnsim.jobs.formats import sbatch_options
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.sbatch_faults import SOURCE, option_faults
from trnsim.jobs.formats.sbatch_script import HEADER, ScriptContent, component_key, script_content
from trnsim.jobs.formats.sbatch_writing import write
from trnsim.jobs.job import Job, Role
from trnsim.jobs.parallelism import has_launcher, started_ranks
from trnsim.jobs.spec import JobSpec, SpecReader, TemplateValue, is_template
from trnsim.reader import FileContent, SourcePlace
from trnsim.reader.parsed import Malformed, ParsedText

_MARK: Final = re.compile(rf"^{HEADER}\s", re.MULTILINE)
_COUNT: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_NUMBER: Final = re.compile(r"\d{1,9}", re.ASCII)
_ARRAY_PART: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?")
_INSTANCE: Final = re.compile(r"[a-z][a-z0-9-]*\.(?:metal|(?:\d+x)?large|\d*xlarge)")


def _places(root: SourcePlace) -> Iterator[SourcePlace]:
    if isinstance(root.value, str) and _MARK.search(root.value):
        yield root


def script_of(place: SourcePlace) -> ScriptContent:
    """The content of a script.

    Raises:
        BadInput: a quote or a bracket is not closed.
    """
    try:
        return script_content(place.value)
    except Malformed as error:
        raise place.document.refused(error.line, error.why, error.fix) from error


def _read(place: SourcePlace) -> JobSpec:
    """The spec of a script.

    Raises:
        BadInput: an option has a value that is not legal, or a quote is not closed.
    """
    if not place.value.startswith("#!"):
        why = "sbatch takes no script whose first line does not begin with #!"
        raise place.document.refused(1, why, "begin it with #!/bin/bash")
    script = script_of(place)
    script_text = ParsedText(script.content, script.line_of)
    reader = SpecReader(FileContent(place.document.file, script_text, place.document.fix).root)
    components = sum(1 for key in script.content if key.startswith(HEADER))
    environment = exported_variables(reader, components, script)
    roles = tuple(
        replace(_role(reader, index), environment=environment) for index in range(components)
    )
    notes = sbatch_options.notes_in(str(reader.value(HEADER, "comment") or "")) or {}
    if notes:
        reader.take(HEADER, "comment")
    job = Job(
        region=notes.get("region", ""),
        purchase=notes.get("purchase", ""),
        model=notes.get("model", ""),
        name=reader.text(HEADER, "job-name", field="name"),
        roles=roles,
        time_limit_s=_time_limit_s(reader),
        copies=_copies(reader),
    )
    for index in script.content.get("ignored", ()):
        reader.lines[f"ignored.{index}"] = SourceLine(
            place.document.file, script.line_of(("ignored", index))
        )
    keys = [key for key in script.content if key.startswith(HEADER)]
    faults = [
        fault._replace(source=SOURCE)
        for key in keys
        for fault in option_faults(key, script.content[key])
    ]
    for fault in faults:
        reader.lines[fault.path] = SourceLine(place.document.file, script.line_of(fault.keys))
    return JobSpec(
        "sbatch",
        replace(job, kept_fields=reader.kept_fields()),
        reader.start,
        reader.lines,
        tuple(reader.templates),
        branches={
            f"roles.{index}.command": script.branch
            for index, role in enumerate(roles)
            if script.branch and role.command
        },
        faults=tuple(faults),
        read_keys=frozenset(reader.read_keys),
    )


def exported_variables(
    reader: SpecReader, components: int, script: ScriptContent
) -> tuple[tuple[str, str], ...]:
    """Variables that the script exports; each role has all variables."""
    variables: list[tuple[str, str]] = []
    for index in range(reader.length("export")):
        name = reader.take("export", index, "name")
        for role in range(components):
            field = f"roles.{role}.environment.{name}"
            value = reader.take("export", index, "value", field=field)
            if is_template(value):
                reader.templates.append(TemplateValue(field, value, reader.lines[field]))
        variables.append((name, reader.take("export", index, "value")))
    for name, (text, line) in script.uncertain.items():
        source_line = SourceLine(reader.start.file, line)
        for role in range(components):
            path = f"roles.{role}.environment.{name}"
            reader.templates.append(TemplateValue(path, text, source_line))
    return tuple(variables)


def _role(reader: SpecReader, index: int) -> Role:
    key, path = component_key(index), f"roles.{index}"
    if not reader.names(key):
        reader.take(key)
    component = reader.place(key)
    reader.lines.setdefault(path, reader.start if component is None else component.line)
    least_nodes, most_nodes = _replicas(reader, key, path)
    command = command_words(reader, ("command", index), f"{path}.command")
    if reader.value("srun", index) == []:
        reader.take("srun", index)
    processes, tasks = _processes(reader, key, path, command)
    cpus = None
    if tasks is not None:
        cpus = reader.whole(key, "cpus-per-task", field=f"{path}.vcpus", minimum=1)
    # An option with a value is kept: --exclusive=user shares a node among a user's own jobs.
    is_exclusive = reader.value(key, "exclusive") is True
    if is_exclusive:
        reader.take(key, "exclusive", field=f"{path}.is_exclusive")
    return Role(
        name="main" if index == 0 else f"hetjob {index}",
        replicas=most_nodes,
        least_replicas=least_nodes,
        instance=_instance(reader, key, path),
        is_exclusive=is_exclusive,
        processes=processes,
        devices=reader.whole(key, "gres", "neuron", field=f"{path}.devices"),
        cores=reader.whole(key, "gres", "neuroncore", field=f"{path}.cores"),
        gpus=_gpus(reader, key, path),
        vcpus=None if cpus is None or tasks is None else float(cpus * tasks),
        memory_bytes=_memory_bytes(reader, key, path),
        image=reader.text("image", index, field=f"{path}.image"),
        command=command,
    )


def _processes(
    reader: SpecReader, key: str, path: str, command: tuple[str, ...]
) -> tuple[int | None, int | None]:
    """The ranks and the tasks of a node; None for a number that is not stated.

    A node has one task unless an option gives more. Source: sbatch(1), --ntasks.
    """
    ranks = started_ranks(command)
    if ranks is not None:
        reader.lines.setdefault(f"{path}.processes", reader.lines[f"{path}.command"])
    if reader.value(key, "ntasks-per-node") is None:
        is_single = reader.value(key, "ntasks") is None
        return (ranks if is_single else None), (1 if is_single else None)
    tasks = reader.whole(key, "ntasks-per-node", field=f"{path}.processes", minimum=1)
    if tasks is None:
        return None, None
    if has_launcher(command, tasks) and ranks is None:
        reader.give_back(key, "ntasks-per-node")
        return None, tasks
    return tasks * (ranks or 1), tasks


def command_words(reader: SpecReader, keys: tuple[str | int, ...], path: str) -> tuple[str, ...]:
    """The words of a command; words that a template fills in are added to the spec's templates."""
    words = reader.words(*keys, field=path)
    reader.templates += [
        TemplateValue(f"{path}.{index}", word, reader.lines[path])
        for index, word in enumerate(words)
        if is_template(word)
    ]
    return words


def _replicas(reader: SpecReader, key: str, path: str) -> tuple[int | None, int | None]:
    """The smallest and the largest number of nodes; the smallest is None without a range.

    Without an option the number is 1.

    Source: sbatch(1), --nodes, and --ntasks: the default is one task.
    """
    text = reader.text(key, "nodes", field=f"{path}.replicas")
    if not text:
        tasks = reader.value(key, "ntasks")
        return None, 1 if tasks in (None, 1, "1") else None
    if is_template(text):
        return None, None
    match = _COUNT.fullmatch(text)
    if not match or int(match[2] or match[1]) < max(int(match[1]), 1):
        raise reader.refused(
            (key, "nodes"),
            "legal: a number of nodes, or LEAST-MOST",
            count_fix(text, "a number from 1 on"),
        )
    return (int(match[1]), int(match[2])) if match[2] else (None, int(match[1]))


def _instance(reader: SpecReader, key: str, path: str) -> str:
    """The instance type that is the name of a constraint or a partition; "" without such a name.

    ParallelCluster gives its nodes the instance type as a feature. Source: aws-parallelcluster,
    ``slurm_parallelcluster_queue_partition.conf``: Feature.
    """
    for name in ("constraint", "partition"):
        text = reader.value(key, name)
        is_type = isinstance(text, str) and (
            text in catalogue().instances or _INSTANCE.fullmatch(text)
        )
        if not is_type:
            continue
        if name == "constraint":
            return reader.text(key, name, field=f"{path}.instance")
        place = reader.place(key, name)
        if place is not None:
            reader.lines[f"{path}.instance"] = place.line
        return str(text)
    return ""


def _gpus(reader: SpecReader, key: str, path: str) -> int | None:
    """GPUs of a node by --gpus-per-node, or else by --gres.

    An option with a type (``h100:4``) is also kept, as a job has no field for the type.
    """
    field, option = f"{path}.gpus", (key, "gpus-per-node")
    text, place = reader.value(*option), reader.place(*option)
    if not isinstance(text, str) or text.isdecimal() or is_template(text):
        count = reader.whole(*option, field=field)
    else:
        count = _typed_count(reader, option, text)
        if count is not None and place is not None:
            reader.lines.setdefault(field, place.line)
            reader.read_keys.add(option)
    gres_count = reader.whole(key, "gres", "gpu", field=field)
    return gres_count if count is None else count


def _typed_count(reader: SpecReader, option: tuple[str, str], text: str) -> int | None:
    """The number of GPUs in ``h100:4`` or ``a:2,b:1``; None for other texts.

    Raises:
        BadInput: GPUs with and without a type.
    """
    try:
        count, type_ = sbatch_options.resource_count(text.split(","))
    except ValueError as error:
        fix = "state the type of each, as TYPE:COUNT, or of none"
        raise reader.refused(option, str(error), fix) from error
    return int(count) if type_ and _NUMBER.fullmatch(count) else None


def _memory_bytes(reader: SpecReader, key: str, path: str) -> int | None:
    if reader.value(key, "mem") in ("0", None):
        return None
    text = reader.text(key, "mem", field=f"{path}.memory_bytes")
    if is_template(text):
        return None
    try:
        return sbatch_options.memory_bytes(text)
    except ValueError as error:
        legal = "legal: a size as 64G; units K, M, G, T"
        raise reader.refused((key, "mem"), legal, memory_fix(text)) from error


def _time_limit_s(reader: SpecReader) -> float | None:
    text = reader.text(HEADER, "time", field="time_limit_s")
    if not text or is_template(text):
        return None
    try:
        return sbatch_options.time_limit_s(text)
    except ValueError as error:
        why = "legal: minutes, hours:minutes:seconds or days-hours:minutes:seconds"
        raise reader.refused((HEADER, "time"), why, time_fix(text)) from error


def _copies(reader: SpecReader) -> int:
    """Number of an array's tasks; indexes that do not count from 0 are also kept, as text."""
    text = reader.value(HEADER, "array")
    if text is None or (isinstance(text, str) and is_template(text)):
        return 1
    indexes, _, _ = str(text).partition("%")
    count = 0
    for part in indexes.split(","):
        match = _ARRAY_PART.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        step = int(match[3] or 1) if match else 1
        if last < first or not step:
            legal = "legal: indexes as 0-9, 1,3,5 or 0-15%4"
            raise reader.refused((HEADER, "array"), legal, "write 0-9 for ten tasks")
        count += (last - first) // step + 1
    if text == f"0-{count - 1}":
        reader.take(HEADER, "array", field="copies")
    elif (place := reader.place(HEADER, "array")) is not None:
        reader.lines["copies"] = place.line
    return count


FORMAT: Final = JobFormat("sbatch", "sbatch script", ".sh", _places, _read, write)
