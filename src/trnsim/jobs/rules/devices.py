"""Rules of devices: their number and sets, cores, EFA interfaces, and types of manifests' values.

Instances, their devices and their interfaces come from the catalogue; sets of devices are those of
`trnsim.instance.device_sets`. A role whose instance is not stated has no finding about it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Final, NamedTuple

from trnsim.arch.catalogue import Instance, catalogue
from trnsim.errors import BadInput
from trnsim.formatting import counted, enumerated, plural
from trnsim.instance.cores import parse_cores
from trnsim.instance.device_sets import is_legal, refusal, rule
from trnsim.jobs.finding import JobRule, Severity, Violation
from trnsim.jobs.formats import FORMATS, MANIFESTS
from trnsim.jobs.job import JobKind, Role
from trnsim.jobs.parallelism import whole_number
from trnsim.jobs.spec import JobSpec, is_template

_SCHEDULER: Final = "deploy/infrastructure/scheduler.rst"
_VISIBLE: Final = "NEURON_RT_VISIBLE_CORES"
_COUNT: Final = "NEURON_RT_NUM_CORES"
_CORES_GUIDE: Final = "aws-neuron-sdk neuron-runtime/guides/configuration-guide.rst"
_FAQ: Final = (
    "aws-neuron-sdk deploy/faq.rst, Can distributed training jobs be run without EFA devices"
)
_REQUEST: Final = re.compile(r"roles\.\d+\.(devices|cores|gpus|efa|hugepages_bytes)\.request")
_SINGLE_POD_FORMATS: Final = ("pod", "leaderworkerset")
"""Manifests whose pods do not train together."""
_UNTYPED: Final = re.compile(r"roles\.\d+\.untyped\.(.+)")
"""Paths of lines that the reader of pods records for values of an illegal type."""


class _Machine(NamedTuple):
    """The instance of a role.

    Attributes:
        instance: row of the catalogue.
        is_neuron: whether the instance has Neuron devices.
        device_cores: physical NeuronCores of a device; 0 without Neuron devices.
    """

    instance: Instance
    is_neuron: bool
    device_cores: int


def _machines(spec: JobSpec) -> Iterator[tuple[str, Role, _Machine]]:
    """Roles whose instance is known, with their paths in the job."""
    rows = catalogue()
    for index, role in enumerate(spec.job.roles):
        instance = rows.instances.get(role.instance.removeprefix("ml."))
        if instance is not None:
            chip = rows.chips.get(instance.accelerator)
            machine = _Machine(instance, chip is not None, 0 if chip is None else chip.cores)
            yield f"roles.{index}", role, machine


def _instance_types(spec: JobSpec) -> Iterator[Violation]:
    """Violations by types that a Neuron family lacks; SageMaker's types have another rule."""
    if spec.is_of_sagemaker:
        return
    rows = catalogue()
    names = [name for name, row in rows.instances.items() if row.accelerator in rows.chips]
    for index, role in enumerate(spec.job.roles):
        instance = role.instance.removeprefix("ml.")
        family, dot, _ = instance.partition(".")
        sizes = [name for name in names if name.startswith(f"{family}.")]
        if dot and sizes and instance not in sizes and not is_template(instance):
            yield Violation(
                f"roles.{index}.instance",
                f"{instance} is no instance type of EC2",
                f"name {enumerated(sizes, 'or')}",
            )


def _accelerators(spec: JobSpec) -> Iterator[Violation]:
    for path, role, machine in _machines(spec):
        name, count = machine.instance.name, machine.instance.count
        cores = count * machine.device_cores
        legal = {
            "devices": ("Neuron devices", count if machine.is_neuron else 0),
            "cores": ("NeuronCores", cores),
            "gpus": ("GPUs", 0 if machine.is_neuron else count),
        }
        for field, (words, supply_count) in legal.items():
            number = role.requested(field)
            if number is not None and number > supply_count:
                supply = f"has {supply_count}" if supply_count else "has none"
                in_all = " in all its containers" if field in dict(role.pod_requests) else ""
                yield Violation(
                    f"{path}.{field}",
                    f"a replica asks for {number:,} {words}{in_all}; {name} {supply}",
                    f"ask for at most {supply_count}" if supply_count else _other_kind(machine),
                )


def _other_kind(machine: _Machine) -> str:
    """The fix of a role that asks for accelerators of the other kind."""
    count = machine.instance.count
    if machine.is_neuron:
        devices = plural(count, "Neuron device")
        return f"ask for its {count} {devices}, or name an instance type with GPUs"
    return (
        f"ask for its {counted(count, 'GPU')}, or name an instance type of Trainium or Inferentia"
    )


def _scheduled_counts(spec: JobSpec) -> Iterator[Violation]:
    for path, role, machine in _machines(spec):
        if not machine.is_neuron or not role.devices or role.devices > machine.instance.count:
            continue
        reason = refusal(machine.instance.name, role.devices)
        if reason is not None and _SCHEDULER in reason.source:
            yield Violation(f"{path}.devices", reason.reason, reason.fix)


def _groups(spec: JobSpec) -> Iterator[Violation]:
    for path, role, machine in _machines(spec):
        if not machine.is_neuron:
            continue
        sets, count = rule(machine.instance.name), role.devices or 0
        set_sizes = enumerated([str(size) for size in sets.counts], "or")
        is_counted = FORMATS[spec.format].is_manifest and 0 < count <= sets.devices
        reason = refusal(sets.instance, count) if is_counted else None
        if sets.is_documented and reason is not None and _SCHEDULER not in reason.source:
            yield Violation(
                f"{path}.devices",
                f"{count} devices; AWS draws connected sets of {set_sizes} on {sets.instance}",
                reason.fix,
            )
        numbers = role.device_indexes
        is_run = _is_run(numbers) and max(numbers, default=0) < sets.devices
        if sets.is_documented and sets.groups and is_run and not is_legal(sets.instance, numbers):
            yield Violation(
                f"{path}.device_indexes",
                f"devices {_number_list(numbers)}; AWS draws sets of {set_sizes} that begin at a "
                f"multiple of their size on {sets.instance}",
                "name such a set",
            )


def _runs(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        numbers = role.device_indexes
        if numbers and not _is_run(numbers):
            yield Violation(
                f"roles.{index}.device_indexes",
                f"devices {_number_list(numbers)} do not follow each other",
                "name devices that are connected, such as 0, 1, 2, 3",
            )


def _is_run(numbers: tuple[int, ...]) -> bool:
    """True if the numbers are consecutive, in any order."""
    return bool(numbers) and sorted(numbers) == list(range(min(numbers), max(numbers) + 1))


def _number_list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))


def _visible_cores(role: Role) -> tuple[int, ...]:
    """The cores that NEURON_RT_VISIBLE_CORES names; () without it, or if its text is not legal."""
    text = role.variable(_VISIBLE)
    if not text or is_template(text):
        return ()
    try:
        return parse_cores(text)
    except BadInput:
        return ()


def _core_lists(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        text = role.variable(_VISIBLE)
        if not text or is_template(text):
            continue
        try:
            parse_cores(text)
        except BadInput as error:
            yield Violation(f"roles.{index}.environment.{_VISIBLE}", error.reason, error.fix)


def _core_counts(spec: JobSpec) -> Iterator[Violation]:
    for path, role, machine in _machines(spec):
        if not machine.is_neuron:
            continue
        devices = role.devices or len(role.device_indexes) or machine.instance.count
        lnc = role.lnc or 1
        cores = role.cores or devices * machine.device_cores // lnc
        total = machine.instance.count * machine.device_cores // lnc
        holder = (
            f"{counted(role.cores, 'NeuronCore')}"
            if role.cores
            else f"{counted(devices, 'device')} of {counted(cores, 'core')}"
        )
        visible_cores = _visible_cores(role)
        field = f"{path}.environment.{_VISIBLE}"
        if visible_cores and visible_cores[-1] >= total:
            yield Violation(
                field,
                f"core {visible_cores[-1]}; {machine.instance.name} has {total}, 0 to {total - 1}",
                f"name cores up to {total - 1}",
            )
        elif len(visible_cores) > cores:
            yield Violation(
                field,
                f"{len(visible_cores)} cores; a replica has {holder}",
                f"name {counted(cores, 'core')}",
            )
        count = whole_number(role.variable(_COUNT)) or 0
        if count > cores and not visible_cores:
            yield Violation(
                f"{path}.environment.{_COUNT}",
                f"{count} cores; a replica has {holder}",
                f"set at most {cores}",
            )


def _core_precedence(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        visible_cores, count = _visible_cores(role), whole_number(role.variable(_COUNT))
        if visible_cores and count is not None and count not in (0, len(visible_cores)):
            yield Violation(
                f"roles.{index}.environment.{_COUNT}",
                f"{_COUNT} is {count}, and {_VISIBLE} names "
                f"{counted(len(visible_cores), 'core')}, which "
                "takes precedence",
                f"take {_COUNT} out, or set {len(visible_cores)}",
            )


def _shared_cores(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        visible_cores = _visible_cores(role)
        if visible_cores and role.processes is not None and role.processes > len(visible_cores):
            yield Violation(
                f"roles.{index}.environment.{_VISIBLE}",
                f"{role.processes} processes have {counted(len(visible_cores), 'core')}; two of "
                "them have the same",
                f"name {role.processes} cores, or start "
                f"{counted(len(visible_cores), 'process', 'processes')}",
            )
    if spec.format != "ecs":
        return
    for (_, first), (index, second) in combinations(enumerate(spec.job.roles), 2):
        cores = sorted(set(_visible_cores(first)) & set(_visible_cores(second)))
        devices = set(first.device_indexes) & set(second.device_indexes)
        if cores and (devices or not (first.device_indexes or second.device_indexes)):
            yield Violation(
                f"roles.{index}.environment.{_VISIBLE}",
                f"core {cores[0]} is that of {first.name!r} too, on the same instance",
                "give each container cores of its own",
            )


def _interfaces(spec: JobSpec) -> Iterator[Violation]:
    for path, role, machine in _machines(spec):
        interfaces = machine.instance.efa_devices
        if interfaces and role.efa is not None and role.efa > interfaces:
            yield Violation(
                f"{path}.efa",
                f"a replica asks for {role.efa:,} EFA interfaces; {machine.instance.name} has "
                f"{interfaces}",
                f"ask for {interfaces}",
            )


def _all_interfaces(spec: JobSpec) -> Iterator[Violation]:
    if spec.job.kind is not JobKind.TRAINING:
        return
    for path, role, machine in _machines(spec):
        interfaces, name = machine.instance.efa_devices, machine.instance.name
        has_whole_instance = machine.is_neuron and role.devices == machine.instance.count
        is_claimed = any("resourceClaims" in field.keys for field in spec.job.kept_fields)
        if not interfaces or not has_whole_instance or (role.replicas or 0) <= 1:
            continue
        if role.is_privileged or is_claimed or spec.is_template(f"{path}.efa"):
            continue
        if (role.efa or 0) < interfaces:
            efa_text = "none" if not role.efa else str(role.efa)
            yield Violation(
                f"{path}.efa" if role.efa is not None else f"{path}.devices",
                f"{role.replicas} replicas of {name} with {efa_text} of its {interfaces} "
                "EFA interfaces",
                f"set vpc.amazonaws.com/efa: {interfaces} in limits and requests",
            )


def _requests(spec: JobSpec) -> Iterator[Violation]:
    for path in spec.lines:
        request = _REQUEST.fullmatch(path)
        if request is not None:
            yield Violation(
                path,
                f"the request of {request[1]} is not the limit, or there is no limit",
                "state the same number in limits and requests",
            )


def _untyped_values(spec: JobSpec) -> Iterator[Violation]:
    for path in spec.lines:
        value = _UNTYPED.fullmatch(path)
        if value is not None:
            subject = (
                "a word of the command" if value[1] == "command" else f"the value of {value[1]}"
            )
            yield Violation(
                path, f"{subject} is a number or a truth value; legal: text", "put it in quotes"
            )


RULES: Final = (
    JobRule(
        "instance-type",
        "An instance of a Neuron family has a size that the family has.",
        "Amazon EC2 instance types, Accelerated computing",
        _instance_types,
    ),
    JobRule(
        "accelerator-count",
        "A replica asks for no more devices, NeuronCores or GPUs than its instance has.",
        "Amazon EC2 instance types, Accelerated computing",
        _accelerators,
    ),
    JobRule(
        "device-count",
        "Kubernetes' scheduler with the Neuron extension places this number of devices.",
        f"aws-neuron-sdk {_SCHEDULER}, Device Allocation by Instance Type",
        _scheduled_counts,
        formats=MANIFESTS,
    ),
    JobRule(
        "device-group",
        "Devices are a set that AWS draws: connected, and apart from the others.",
        f"aws-neuron-sdk {_SCHEDULER}; deploy/eks/dra.rst, Example 1 - Connected Neuron Devices",
        _groups,
        Severity.WARNING,
    ),
    JobRule(
        "device-run",
        "Numbers of a container's devices follow each other.",
        f"aws-neuron-sdk {_SCHEDULER}, Inf1 and Inf2 Instances (Ring Topology)",
        _runs,
    ),
    JobRule(
        "visible-cores",
        "NEURON_RT_VISIBLE_CORES is a core, or cores that follow each other, each once.",
        f"{_CORES_GUIDE}, Using NEURON_RT_VISIBLE_CORES; nrt-developer-guide.rst",
        _core_lists,
    ),
    JobRule(
        "core-count",
        "A process is given no more cores than its replica's devices have.",
        f"{_CORES_GUIDE}, Notes",
        _core_counts,
    ),
    JobRule(
        "core-precedence",
        "NEURON_RT_NUM_CORES is the number of the cores that NEURON_RT_VISIBLE_CORES names.",
        f"{_CORES_GUIDE}, Notes, 5",
        _core_precedence,
        Severity.WARNING,
    ),
    JobRule(
        "shared-core",
        "A core belongs to one process.",
        f"{_CORES_GUIDE}, Using NEURON_RT_VISIBLE_CORES and Notes",
        _shared_cores,
    ),
    JobRule(
        "efa-count",
        "A replica asks for no more EFA interfaces than its instance has.",
        "Amazon EC2 user guide, Elastic Fabric Adapter, Supported instance types",
        _interfaces,
    ),
    JobRule(
        "efa-all",
        "Training on several instances has all EFA interfaces of each.",
        _FAQ,
        _all_interfaces,
        Severity.WARNING,
        tuple(name for name in MANIFESTS if name not in _SINGLE_POD_FORMATS),
    ),
    JobRule(
        "resource-limit",
        "Of devices, EFA interfaces and huge pages, the request equals the limit.",
        "kubernetes.io docs, Extended Resources for a Container; Schedule GPUs; Manage HugePages",
        _requests,
        formats=MANIFESTS,
    ),
    JobRule(
        "text-value",
        "Variables and words of a command are text.",
        "Kubernetes API reference, core/v1 Container (args, command) and EnvVar (value)",
        _untyped_values,
        formats=MANIFESTS,
    ),
)
