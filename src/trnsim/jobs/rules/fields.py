"""Rules of fields that a service describes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from trnsim.jobs.finding import JobRule, Severity, Violation
from trnsim.jobs.formats import FORMATS, MANIFESTS
from trnsim.jobs.spec import JobSpec

_SOURCE: Final = (
    "the fields that AWS (botocore), Kubernetes 1.37 with the resources' own definitions, and "
    "ParallelCluster 3.16 describe: trnsim/jobs/fields; sbatch(1), OPTIONS; the configurations of "
    "NxD Training and NeMo"
)
_FORMATS_WITH_FIELDS: Final = tuple(
    name for name, job_format in FORMATS.items() if job_format.fields
)
_FORMATS_WITH_NAMES: Final = (*_FORMATS_WITH_FIELDS, "sbatch")
"""Formats whose service describes its fields, and sbatch, whose options are its fields."""


def _faults(rule: str) -> Callable[[JobSpec], Iterator[Violation]]:
    """A function from a spec to the violations of a rule that the spec's reader recorded."""

    def violations(spec: JobSpec) -> Iterator[Violation]:
        for fault in spec.faults:
            if fault.rule == rule:
                yield Violation(fault.path, fault.reason, fault.fix, fault.source)

    return violations


def _rule(
    name: str, condition: str, formats: tuple[str, ...], severity: Severity = Severity.ERROR
) -> JobRule:
    return JobRule(name, condition, _SOURCE, _faults(name), severity, formats)


RULES: Final = (
    _rule(
        "misspelled-field",
        "No field has a name that is almost one of the service's.",
        _FORMATS_WITH_NAMES,
    ),
    _rule(
        "unknown-field",
        "Every field is one that the service describes; a newer version may have more.",
        _FORMATS_WITH_NAMES,
        Severity.WARNING,
    ),
    _rule(
        "ignored-field",
        "No key of a configuration has a name that is almost one that its program reads.",
        ("nxdt", "nemo", "nemo-launcher"),
        Severity.WARNING,
    ),
    _rule(
        "misspelled-value",
        "No value is almost one of those that the service lists.",
        _FORMATS_WITH_FIELDS,
    ),
    _rule(
        "unknown-value",
        "Every value of a list is one that the service describes; another version may have more.",
        _FORMATS_WITH_FIELDS,
        Severity.WARNING,
    ),
    _rule(
        "misspelled-resource",
        "No resource of a container has a name that is almost one that nodes offer.",
        MANIFESTS,
    ),
    _rule(
        "missing-field",
        "An object has the fields that the service requires of it.",
        _FORMATS_WITH_FIELDS,
    ),
    _rule("volume-name", "A container mounts volumes of its pod.", MANIFESTS),
    _rule(
        "request-above-limit",
        "Of vCPUs and memory, the request is no more than the limit.",
        MANIFESTS,
    ),
    _rule("huge-page-size", "Huge pages are whole ones.", MANIFESTS),
    _rule(
        "other-container",
        "Settings of Neuron's runtime stand in the container that has the devices.",
        MANIFESTS,
        Severity.WARNING,
    ),
    _rule(
        "selector-labels",
        "The pods of a Deployment or another set have the labels by which it finds them.",
        ("pod",),
    ),
    _rule(
        "value-limit",
        "Retries, the main node and the time of waiting are within the service's limits.",
        ("batch", "batch-eks", "sagemaker-training"),
    ),
    _rule(
        "field-type",
        "Every value is of the type that the service describes.",
        _FORMATS_WITH_NAMES,
    ),
)
