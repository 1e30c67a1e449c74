"""The common parts of AWS Batch's job definitions: head, size of an array, ranges of nodes.

SubmitJob states the size of an array, and a definition does not: `batch_request` reads it from a
SubmitJob, and a written definition has it as a tag of trnsim's.

Sources: AWS Batch API reference, RegisterJobDefinition and NodeRangeProperty; user guide,
"Multi-node parallel jobs" and "Array jobs".
"""

from __future__ import annotations

import re
from itertools import chain, pairwise
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.formats.listing import MODEL_TAG, check_model, item_count
from trnsim.jobs.formats.refusal import check_name, in_units
from trnsim.jobs.formats.writing import without_empty
from trnsim.jobs.job import Job, JobKind, Role
from trnsim.jobs.spec import SpecReader

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}", re.ASCII)
"""Source: RegisterJobDefinition, jobDefinitionName."""
_RANGE: Final = re.compile(r"(\d{0,9}):(\d{0,9})|(\d{1,9})", re.ASCII)
NODES: Final = ("nodeProperties", "nodeRangeProperties")
TYPES: Final = ("container", "multinode")
LEAST_TIMEOUT_S: Final = 60
"""Source: RegisterJobDefinition, timeout."""
LEAST_ARRAY: Final = 2
MOST_ARRAY: Final = 10_000
"""Source: SubmitJob, arrayProperties."""
_ARRAY_TAG: Final = "trnsim:array-size"
"""Tag that states the size of the array job."""
_SIZE: Final = re.compile(r"[1-9]\d{0,4}", re.ASCII)


def read_head(reader: SpecReader) -> dict[str, Any]:
    """The fields of a job that definitions of all kinds state in the same way.

    Raises:
        BadInput: a value is not legal.
    """
    name = reader.text("jobDefinitionName", field="name")
    limit = reader.whole("timeout", "attemptDurationSeconds", field="time_limit_s")
    if reader.value("type") in TYPES:
        reader.take("type")
    return {
        "name": name,
        "model": reader.text("tags", MODEL_TAG, field="model"),
        "time_limit_s": None if limit is None else float(limit),
        "copies": _copies(reader),
    }


def _copies(reader: SpecReader) -> int:
    text = str(reader.value("tags", _ARRAY_TAG) or "")
    if not _SIZE.fullmatch(text) or not LEAST_ARRAY <= int(text) <= MOST_ARRAY:
        return 1
    return int(reader.text("tags", _ARRAY_TAG, field="copies"))


def definition_head(job: Job, kind: str) -> dict[str, Any]:
    """The fields of a definition that all kinds have.

    Raises:
        BadInput: the time limit is no whole number of seconds.
    """
    limit = in_units(job.time_limit_s, 1, "time_limit_s", "seconds")
    size = str(job.copies) if job.copies != 1 else ""
    return {
        "jobDefinitionName": job.name,
        "type": kind,
        "tags": without_empty({MODEL_TAG: job.model, _ARRAY_TAG: size}),
        "timeout": without_empty({"attemptDurationSeconds": limit}),
    }


def node_replicas(reader: SpecReader) -> list[int | None]:
    """The number of nodes of each range; None for all ranges if the spec leaves an end open.

    A node in several ranges belongs to the narrowest range.

    Raises:
        BadInput: there is no range, a range is malformed, or no range has some node.
    """
    count = item_count(reader, *NODES)
    if not count:
        fix = 'add {"targetNodes": "0:", "container": {...}}'
        raise reader.refused(NODES, "a multi-node job needs a range of nodes", fix)
    nodes = reader.whole("nodeProperties", "numNodes", field="roles.0.replicas", minimum=1)
    if reader.value("nodeProperties", "mainNode") == 0:
        reader.take("nodeProperties", "mainNode")
    bounds = [_bounds(reader, index, nodes) for index in range(count)]
    for index in range(count):
        if (place := reader.place(*NODES, index, "targetNodes")) is not None:
            reader.lines.setdefault(f"roles.{index}.replicas", place.line)
    if any(end is None for _, end in bounds):
        return [None] * count
    ranges = [(first, end) for first, end in bounds if end is not None]
    boundaries: set[int] = {0, *chain.from_iterable(ranges), *([nodes] if nodes else [])}
    cuts = sorted(boundaries)
    replicas = [0] * count
    for start, end in pairwise(cuts):
        if nodes is not None and start >= nodes:
            break
        enclosing_ranges = [
            i for i, (first, last) in enumerate(ranges) if first <= start and end <= last
        ]
        if not enclosing_ranges:
            why = f"no range has node {start} of {cuts[-1] if nodes is None else nodes}"
            raise reader.refused(NODES, why, "add a range, such as 0:")
        replicas[min(enclosing_ranges, key=lambda i: ranges[i][1] - ranges[i][0])] += end - start
    return list(replicas)


def _bounds(reader: SpecReader, index: int, nodes: int | None) -> tuple[int, int | None]:
    """The first node of a range, and its end (exclusive); None for a bound that is not stated.

    Raises:
        BadInput: the range is malformed.
    """
    keys = (*NODES, index, "targetNodes")
    match = _RANGE.fullmatch(reader.text(*keys, field=f"roles.{index}.target"))
    first = int((match[1] if match[3] is None else match[3]) or 0) if match else 0
    last = (match[2] if match[3] is None else match[3]) if match else ""
    end = nodes if last == "" else int(last) + 1
    if not match or (end is not None and end <= first):
        fix = "write 0: for all nodes, or 0:3 for the first four"
        raise reader.refused(keys, "legal: first:last, first: or :last", fix)
    return first, end


def target_ranges(job: Job) -> list[str]:
    """Ranges of nodes for the roles, one after the other."""
    ranges, start = [], 0
    for role in job.roles:
        end = "" if role.replicas is None else start + role.replicas - 1
        ranges.append(f"{start}:{end}")
        start += role.replicas or 0
    return ranges


def check_definition(job: Job) -> None:
    """Check that a definition can have the job's name, kind, time limit and number of copies.

    Raises:
        BadInput: a definition cannot have one of these.
    """
    check_model(job)
    if job.kind is not JobKind.TRAINING:
        raise BadInput(f"a {job.kind.value} job is no Batch job, which ends", fix="--as ecs")
    check_name(job.name, _NAME, "Batch: 1 to 128 letters, digits, - and _")
    if job.time_limit_s is not None and job.time_limit_s < LEAST_TIMEOUT_S:
        raise BadInput(
            f"time_limit_s is {job.time_limit_s}; legal in Batch: 60 s or more",
            fix="set a limit of 60 s, or none",
        )
    if job.copies != 1 and not LEAST_ARRAY <= job.copies <= MOST_ARRAY:
        raise BadInput(
            f"copies is {job.copies}; legal for an array job of Batch: 1, or {LEAST_ARRAY} to "
            f"{MOST_ARRAY:,}",
            fix="write several jobs",
            source="AWS Batch API reference, SubmitJob, arrayProperties",
        )
    if not job.roles:
        raise BadInput("a Batch job needs a role", fix="give the job a role")


def check_nodes(job: Job, role: Role) -> None:
    """Check that a range of nodes, or the only container, can have the role's replicas.

    Raises:
        BadInput: it cannot have them.
    """
    name = f"role {role.name!r}"
    if not role.is_exclusive and (len(job.roles) > 1 or role.replicas != 1 or role.instance):
        raise BadInput(
            f"{name}: a single container of Batch names no instance and has no replicas",
            fix="set is_exclusive for a multi-node parallel job",
        )
    if role.replicas is None and len(job.roles) > 1:
        raise BadInput(
            f"{name}: the number of its nodes is not stated",
            fix="state it in the spec that is read",
        )
    if role.replicas is not None and role.replicas < 1:
        raise BadInput(
            f"{name}: {role.replicas} nodes; legal in Batch: 1 or more",
            fix="give the role a node, or take it out",
        )
