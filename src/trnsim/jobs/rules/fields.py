"""Rules of fields that a service describes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from trnsim.jobs.finding import JobRule, Severity, Violation
from trnsim.jobs.formats import FORMATS, MANIFESTS
from trnsim.jobs.spec import JobSpec

__all__ = ["RULES"]

_SOURCE: Final = (
    "the fields that AWS (botocore), Kubernetes 1.37 with the resources' own definitions, and "
    "ParallelCluster 3.16 describe: trnsim/jobs/fields; sbatch(1), OPTIONS; the configurations of "
    "NxD Training and NeMo"
)
_DESCRIBED: Final = tuple(name for name, form in FORMATS.items() if form.fields)
_WITH_OPTIONS: Final = (*_DESCRIBED, "sbatch")
"""Formats whose service describes its fields; and sbatch, whose fields are options."""


def _faults(rule: str) -> Callable[[JobSpec], Iterator[Violation]]:
    """The violations of a spec's document of a rule."""

    def violations(spec: JobSpec) -> Iterator[Violation]:
        for fault in spec.faults:
            if fault.rule == rule:
                yield Violation(fault.path, fault.reason, fault.fix, fault.source)

    return violations


def _rule(name: str, condition: str, severity: Severity, formats: tuple[str, ...]) -> JobRule:
    return JobRule(name, condition, _SOURCE, _faults(name), severity, formats)


RULES: Final = (
    _rule(
        "misspelled-field",
        "No field has a name that is almost one of the service's.",
        Severity.ERROR,
        _WITH_OPTIONS,
    ),
    _rule(
        "unknown-field",
        "Every field is one that the service describes; a newer version may have more.",
        Severity.WARNING,
        _WITH_OPTIONS,
    ),
    _rule(
        "ignored-field",
        "No key of a configuration has a name that is almost one that its program reads.",
        Severity.WARNING,
        ("nxdt", "nemo", "nemo-launcher"),
    ),
    _rule(
        "misspelled-value",
        "No value is almost one of those that the service lists.",
        Severity.ERROR,
        _DESCRIBED,
    ),
    _rule(
        "unknown-value",
        "Every value of a list is one that the service describes; another version may have more.",
        Severity.WARNING,
        _DESCRIBED,
    ),
    _rule(
        "misspelled-resource",
        "No resource of a container has a name that is almost one that nodes offer.",
        Severity.ERROR,
        MANIFESTS,
    ),
    _rule(
        "missing-field",
        "An object has the fields that the service requires of it.",
        Severity.ERROR,
        _DESCRIBED,
    ),
    _rule("volume-name", "A container mounts volumes of its pod.", Severity.ERROR, MANIFESTS),
    _rule(
        "request-above-limit",
        "Of vCPUs and memory, the request is no more than the limit.",
        Severity.ERROR,
        MANIFESTS,
    ),
    _rule("huge-page-size", "Huge pages are whole ones.", Severity.ERROR, MANIFESTS),
    _rule(
        "other-container",
        "Settings of Neuron's runtime stand in the container that has the devices.",
        Severity.WARNING,
        MANIFESTS,
    ),
    _rule(
        "selector-labels",
        "The pods of a Deployment or another set have the labels by which it finds them.",
        Severity.ERROR,
        ("pod",),
    ),
    _rule(
        "value-limit",
        "Retries, the main node and the time of waiting are within the service's limits.",
        Severity.ERROR,
        ("batch", "batch-eks", "sagemaker-training"),
    ),
    _rule(
        "field-type",
        "Every value is of the type that the service describes.",
        Severity.ERROR,
        _WITH_OPTIONS,
    ),
)
