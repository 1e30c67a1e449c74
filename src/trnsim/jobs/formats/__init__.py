"""The formats of job specs, and the reader and writer of all of them."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from trnsim.errors import BadInput
from trnsim.jobs.field_types import field_table
from trnsim.jobs.formats import (
    batch,
    batch_eks,
    ecs,
    hyperpod,
    jobset,
    kubernetes_job,
    leader_worker_set,
    mpijob,
    nemo,
    nemo_launcher,
    nxdt,
    parallelcluster,
    plain_script,
    plan,
    pod,
    pytorchjob,
    rayjob,
    sagemaker_endpoint,
    sagemaker_training,
    sbatch,
)
from trnsim.jobs.formats.batch_request import is_request
from trnsim.jobs.formats.format import JobFormat
from trnsim.jobs.formats.pod_faults import pod_faults
from trnsim.jobs.formats.resource_claims import claim_templates, with_claims
from trnsim.jobs.formats.resource_names import misspelled_resources
from trnsim.jobs.formats.unrecognized import nearest_error
from trnsim.jobs.formats.value_limits import value_limits
from trnsim.jobs.job import Job
from trnsim.jobs.spec import JobSpec
from trnsim.reader import FileContent, SourcePlace, load_documents

__all__ = ["FORMATS", "MANIFESTS", "JobFormat", "read_specs", "write_spec"]

FORMATS: Final[dict[str, JobFormat]] = {
    job_format.name: job_format
    for job_format in (
        plan.FORMAT,
        sbatch.FORMAT,
        plain_script.FORMAT,
        parallelcluster.FORMAT,
        nxdt.FORMAT,
        nemo.FORMAT,
        nemo_launcher.FORMAT,
        sagemaker_training.FORMAT,
        sagemaker_endpoint.FORMAT,
        ecs.FORMAT,
        batch_eks.FORMAT,
        batch.FORMAT,
        pod.FORMAT,
        kubernetes_job.FORMAT,
        jobset.FORMAT,
        pytorchjob.FORMAT,
        hyperpod.FORMAT,
        mpijob.FORMAT,
        rayjob.FORMAT,
        leader_worker_set.FORMAT,
    )
}
"""Formats by name, in the order in which they are tried: the first that finds a job reads it."""

MANIFESTS: Final = tuple(name for name, job_format in FORMATS.items() if job_format.is_manifest)
"""Names of the formats of manifests, whose jobs Kubernetes runs in pods."""
_MANIFEST_FIELDS: Final = "kubernetes"
"""Name of the table of fields in which a manifest's kind is the name of its shape."""
_DOCUMENT: Final = "Document"
"""The shape of a whole document in the other tables of fields."""
_MOST_LEVELS: Final = 100
"""Levels of nested values that are read; Kubernetes' deepest fields have about twenty."""
_FIX: Final = "see trnsim job --help for the formats that are read"


def read_specs(path: Path | str) -> list[JobSpec]:
    """The specs of the jobs in a file, in its order.

    Raises:
        BadInput: the file cannot be read, is of no format, or has a value that is not legal.
    """
    documents = load_documents(path, _FIX)
    for document in documents:
        _require_shallow(document.root)
    templates = claim_templates(documents)
    specs = [
        with_claims(spec, templates) if spec.claims else spec
        for document in documents
        for spec in _specs(document)
    ]
    if not specs and is_request(documents[0].root.value):
        raise documents[0].refused(
            1,
            "a SubmitJob request is no job without its definition",
            f"trnsim job check DEFINITION --submit {Path(path).name}",
        )
    if not specs and plain_script.is_script(documents[0].root):
        fix = "name the script that starts the ranks"
        raise documents[0].refused(1, plain_script.WHY_NOT, fix)
    if not specs and (error := nearest_error([document.root for document in documents])):
        raise error
    if not specs:
        legal = ", ".join(job_format.title for job_format in FORMATS.values())
        raise documents[0].refused(1, f"no spec of a job; legal: {legal}", _FIX)
    return specs


def _require_shallow(root: SourcePlace) -> None:
    """Refuse a document that is nested too deeply to be walked.

    Raises:
        BadInput: the document has more levels than `_MOST_LEVELS`.
    """
    level: list[Any] = [root.value]
    for _ in range(_MOST_LEVELS):
        level = [
            part
            for value in level
            if isinstance(value, dict | list)
            for part in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise root.document.refused(
        root.line.line,
        f"values are nested more deeply than any spec; legal: {_MOST_LEVELS} levels",
        "take out what does not belong to the spec",
    )


def write_spec(job: Job, format_name: str) -> str:
    """A job as the text of a spec.

    Raises:
        BadInput: no such format, or it cannot express the job.
    """
    if format_name not in FORMATS:
        similar_names = get_close_matches(format_name.lower(), FORMATS, 1)
        fix = (
            f"perhaps --as {similar_names[0]}"
            if similar_names
            else "trnsim job --help says what each is"
        )
        raise BadInput(f"--as is {format_name!r}; legal: {', '.join(FORMATS)}", fix=fix)
    return FORMATS[format_name].write(job)


def _specs(document: FileContent) -> list[JobSpec]:
    """The specs in a document, read by the first format that finds a job in it.

    A template of CloudFormation has resources of several formats; a resource is read by the first
    format that finds a job in it.
    """
    jobs: list[tuple[JobFormat, SourcePlace]] = []
    value = document.root.value
    is_template = isinstance(value, dict) and isinstance(value.get("Resources"), dict)
    for job_format in FORMATS.values():
        other_resources = [(place.line, place.value) for _, place in jobs]
        jobs += [
            (job_format, place)
            for place in job_format.places(document.root)
            if (place.line, place.value) not in other_resources
        ]
        if jobs and not is_template:
            break
    if is_template:
        jobs.sort(key=lambda job: job[1].line)
    return [_spec(job_format, place, is_lenient=is_template) for job_format, place in jobs]


def _spec(job_format: JobFormat, place: SourcePlace, *, is_lenient: bool) -> JobSpec:
    """The spec at a place, with the faults of its fields.

    Raises:
        BadInput: a value that the job needs is not legal.
    """
    spec = job_format.read(place)
    if not job_format.fields:
        return spec
    table = field_table(job_format.fields, is_lenient=is_lenient)
    shape = place.value.get("kind") if job_format.fields == _MANIFEST_FIELDS else _DOCUMENT
    untyped_lines = {line for path, line in spec.lines.items() if ".untyped." in path}
    lines = dict(spec.lines)
    faults = []
    located_faults = [*table.placed_faults(place, str(shape))]
    if job_format.is_manifest:
        located_faults += misspelled_resources(place)
        located_faults += pod_faults(place)
    located_faults += value_limits(job_format.name, place)
    for fault, line in located_faults:
        if line not in untyped_lines:  # text that a pod has as a number: a rule of its own
            faults.append(fault)
            lines[fault.path] = line
    return replace(spec, lines=lines, faults=tuple(faults))
