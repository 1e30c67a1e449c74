"""Rules of containers: memory, locked memory and devices; and of SageMaker's types and regions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trnsim.arch.catalogue import Instance, catalogue
from trnsim.formatting import enumerated
from trnsim.jobs.finding import JobRule, Severity, Violation
from trnsim.jobs.formats import MANIFESTS
from trnsim.jobs.job import Role
from trnsim.jobs.parallelism import options_of, whole_number
from trnsim.jobs.spec import JobSpec
from trnsim.price.regions import codes, covers

_DOCKER: Final = ("ecs", "batch")
"""Formats whose containers Docker runs, with its limits."""
_REMOTE_COMMANDS: Final = ("mpijob", "rayjob")
"""Manifests whose command runs in other containers than the one that states the command."""
_BATCH: Final = ("batch", "batch-eks")
_GIB: Final = 2**30
_NEURON: Final = ("trn", "inf")
_TRAINING_TYPES: Final = ("trn1.2xlarge", "trn1.32xlarge", "trn1n.32xlarge", "trn2.48xlarge")
_HOSTING_TYPES: Final = (
    *("inf1.xlarge", "inf1.2xlarge", "inf1.6xlarge", "inf1.24xlarge"),
    *("inf2.xlarge", "inf2.8xlarge", "inf2.24xlarge", "inf2.48xlarge"),
    *_TRAINING_TYPES,
)
"""Neuron instances of SageMaker. Source: botocore 1.44.5, sagemaker 2017-07-24,
TrainingInstanceType and ProductionVariantInstanceType; a test compares them with the installed
botocore."""
_SAGEMAKER: Final = {
    "sagemaker-training": (_TRAINING_TYPES, "training jobs"),
    "sagemaker-endpoint": (_HOSTING_TYPES, "endpoints"),
}
"""Legal types and the use of each format of SageMaker."""
_EFA_PERMISSIONS: Final = {"READ", "WRITE", "MKNOD"}
_DEFAULT_SHM_BYTES: Final = 64 * 2**20
"""Shared memory of a container. Source: Docker, `docker run --shm-size`."""
_SIZES: Final = {
    ("batch", "memory_bytes"): ("memory", '{"type": "MEMORY", "value": "MIB"} to its requirements'),
    ("batch", "vcpus"): ("vCPUs", '{"type": "VCPU", "value": "NUMBER"} to its requirements'),
    ("ecs", "memory_bytes"): ("memory, nor does the task", '"memory": MIB'),
}
"""Sizes that a container must state, by format and field of a role: in words, and the fix."""
_WORKERS: Final = ("num-workers", "dataloader-num-workers", "num-data-workers")


def _instance(role: Role) -> Instance | None:
    return catalogue().instances.get(role.instance)


def _unlocked_efa(spec: JobSpec) -> Iterator[Violation]:
    """EFA in a container of Docker with a limit on locked memory."""
    for index, role in enumerate(spec.job.roles):
        may_lock = (
            role.is_memlock_unlimited
            or role.is_privileged
            or {"IPC_LOCK", "ALL"} & set(role.capabilities)
        )
        if role.efa and not may_lock:
            has_capabilities = spec.format == "ecs"
            yield Violation(
                f"roles.{index}.efa",
                f"{role.efa} EFA interfaces, and locked memory is limited as Docker's daemon has "
                "it; EFA registers memory, which is locked",
                'add {"name": "memlock", "softLimit": -1, "hardLimit": -1} to ulimits'
                + (", or IPC_LOCK to capabilities" if has_capabilities else ""),
            )


def _efa_permissions(spec: JobSpec) -> Iterator[Violation]:
    """Permissions of an EFA device of Batch that are not all three."""
    permissions: dict[tuple[str | int, ...], set[str]] = {}
    for field in spec.job.kept_fields:
        *_, path, name, _ = ("", "", *field.keys)
        if str(path).startswith("/dev/infiniband/") and name == "permissions":
            permissions.setdefault(field.keys[:-1], set()).add(str(field.value).upper())
    for keys, permission_names in permissions.items():
        role = next((key for key in keys if isinstance(key, int)), 0)
        if permission_names != _EFA_PERMISSIONS:
            yield Violation(
                f"roles.{role}.efa",
                f"{keys[-2]} has the permissions {enumerated(sorted(permission_names), 'and')}; "
                "legal: READ, WRITE and MKNOD",
                "leave permissions out, or state all three",
            )


def _huge_pages(spec: JobSpec) -> Iterator[Violation]:
    """EFA that a variable tells to use huge pages, in a pod without huge pages."""
    for index, role in enumerate(spec.job.roles):
        uses_pages = role.variable("FI_EFA_USE_HUGE_PAGE") == "1"
        if role.efa and uses_pages and role.hugepages_bytes is None:
            yield Violation(
                f"roles.{index}.environment.FI_EFA_USE_HUGE_PAGE",
                "FI_EFA_USE_HUGE_PAGE is 1, and the container asks for no huge pages",
                "add hugepages-2Mi to its limits, or set FI_EFA_USE_HUGE_PAGE to 0",
            )


def _pages_alone(spec: JobSpec) -> Iterator[Violation]:
    """Huge pages without memory or vCPUs."""
    for index, role in enumerate(spec.job.roles):
        other_paths = (f"roles.{index}.memory_bytes", f"roles.{index}.vcpus")
        is_alone = role.memory_bytes is None and role.vcpus is None
        is_templated = any(spec.is_template(path) for path in other_paths)
        if role.hugepages_bytes and is_alone and not is_templated:
            yield Violation(
                f"roles.{index}.hugepages_bytes",
                "huge pages without memory or cpu, which Kubernetes refuses",
                "add memory or cpu to the container's resources",
            )


def _shared_memory(spec: JobSpec) -> Iterator[Violation]:
    """Data loaders with workers, in a container with /dev/shm of the default size or less."""
    is_shared = any(
        field.value == "/dev/shm" or field.keys[-1] in ("ipcMode", "hostIPC")  # noqa: S108  a mount
        for field in spec.job.kept_fields
    )
    if is_shared:
        return
    for index, role in enumerate(spec.job.roles):
        options = options_of(role.command)
        counts = [options[name] for name in _WORKERS if name in options]
        has_workers = any(map(whole_number, counts))
        size = role.shm_bytes if role.shm_bytes is not None else _DEFAULT_SHM_BYTES
        is_templated = spec.is_template(f"roles.{index}.shm_bytes")
        if has_workers and size <= _DEFAULT_SHM_BYTES and not is_templated:
            yield Violation(
                f"roles.{index}.shm_bytes"
                if role.shm_bytes
                else spec.option_field(index, *_WORKERS),
                f"{counts[0]} workers of a data loader share {size // 2**20} MiB of /dev/shm",
                "set sharedMemorySize"
                if spec.format in _DOCKER
                else "mount an emptyDir of medium Memory at /dev/shm",
            )


def _stated_sizes(spec: JobSpec) -> Iterator[Violation]:
    """Violations: containers of ECS or Batch that lack memory or, for Batch, vCPUs.

    ECS takes the memory of the task, or one that is reserved, in place of a container's own.
    """
    needs = [name for format_name, name in _SIZES if format_name == spec.format]
    other_paths = (
        field.keys == ("memory",) or "memoryReservation" in field.keys
        for field in spec.job.kept_fields
    )
    if spec.format == "ecs" and any(other_paths):
        return
    for index, role in enumerate(spec.job.roles):
        for name in needs:
            path = f"roles.{index}.{name}"
            if getattr(role, name) is None and not spec.is_template(path):
                field, fix = _SIZES[spec.format, name]
                container = f"roles.{index}.container"
                yield Violation(container, f"the container states no {field}", f"add {fix}")


def _device_numbers(spec: JobSpec) -> Iterator[Violation]:
    """Indexes of devices that the instance does not have."""
    for index, role in enumerate(spec.job.roles):
        instance = _instance(role)
        if instance is None or instance.accelerator not in catalogue().chips:
            continue
        numbers = enumerate(role.device_indexes)
        missing_numbers = [
            (position, number) for position, number in numbers if number >= instance.count
        ]
        if missing_numbers:
            position, number = missing_numbers[0]
            yield Violation(
                f"roles.{index}.device_indexes.{position}",
                f"/dev/neuron{number} on {role.instance}, whose {instance.count} devices end "
                f"with /dev/neuron{instance.count - 1}",
                "leave it out",
            )


def _unmapped_devices(spec: JobSpec) -> Iterator[Violation]:
    """Settings of Neuron's runtime in a container without devices."""
    if any(field.value == "NeuronDevice" for field in spec.job.kept_fields):
        return
    for index, role in enumerate(spec.job.roles):
        names = [name for name, _ in role.environment]
        settings = [name for name in names if name.startswith("NEURON_RT_")]
        has_devices = role.devices or role.is_privileged or "AWS_NEURON_VISIBLE_DEVICES" in names
        if settings and not has_devices:
            yield Violation(
                f"roles.{index}.environment.{settings[0]}",
                f"{settings[0]} is set, and no /dev/neuron is mapped into the container",
                "add its devices to linuxParameters.devices",
            )


def _memory(spec: JobSpec) -> Iterator[Violation]:
    """More memory than the instance has, or all of it in a container: the host needs a part."""
    totals: dict[str, int] = {}
    for index, role in enumerate(spec.job.roles):
        instance = _instance(role)
        if instance is None or instance.host_bytes is None or role.memory_bytes is None:
            continue
        total = totals.get(role.instance, 0) if spec.format == "ecs" else 0
        totals[role.instance] = total = total + role.memory_bytes
        is_container = spec.format in (*_DOCKER, *MANIFESTS)
        if total > instance.host_bytes or (is_container and total >= instance.host_bytes):
            yield Violation(
                f"roles.{index}.memory_bytes",
                f"{total / _GIB:,.10g} GiB of memory on {role.instance}, which has "
                f"{instance.host_bytes / _GIB:,.10g} GiB, a part of them for itself",
                "ask for less",
            )


def _memory_units(spec: JobSpec) -> Iterator[Violation]:
    """Memory of a container with devices that is too little for any framework."""
    for index, role in enumerate(spec.job.roles):
        size = role.memory_bytes
        has_devices = role.devices or role.device_indexes or role.cores
        if size and has_devices and size < _GIB:
            unit = "bytes" if spec.format in MANIFESTS else "MiB"
            yield Violation(
                f"roles.{index}.memory_bytes",
                f"{size / 2**20:,.6g} MiB of memory beside Neuron devices; a number without a "
                f"unit is of {unit}",
                "write the memory in the unit of the field",
            )


def _vcpus(spec: JobSpec) -> Iterator[Violation]:
    """More vCPUs than the instance has."""
    totals: dict[str, float] = {}
    for index, role in enumerate(spec.job.roles):
        instance = _instance(role)
        if instance is None or not instance.vcpus or role.vcpus is None:
            continue
        total = totals.get(role.instance, 0.0) if spec.format == "ecs" else 0.0
        totals[role.instance] = total = total + role.vcpus
        if total > instance.vcpus:
            yield Violation(
                f"roles.{index}.vcpus",
                f"{total:,.10g} vCPUs on {role.instance}, which has {instance.vcpus}",
                "ask for less",
            )


def _batch_variables(spec: JobSpec) -> Iterator[Violation]:
    """Variables whose names Batch reserves."""
    for index, role in enumerate(spec.job.roles):
        for name, _ in role.environment:
            if name.startswith("AWS_BATCH"):
                yield Violation(
                    f"roles.{index}.environment.{name}.name",
                    f"{name} is set; names that begin with AWS_BATCH are Batch's own",
                    "give it another name",
                )


def _sagemaker_types(spec: JobSpec) -> Iterator[Violation]:
    """Neuron instances that SageMaker's API does not have."""
    legal, use = _SAGEMAKER[spec.format]
    for index, role in enumerate(spec.job.roles):
        if role.instance.startswith(_NEURON) and role.instance not in legal:
            is_hosted = role.instance in _HOSTING_TYPES
            yield Violation(
                f"roles.{index}.instance",
                f"ml.{role.instance} is no type of SageMaker's {use}"
                + (", though of its endpoints" if is_hosted else ""),
                f"legal Neuron types: {enumerated([f'ml.{name}' for name in legal], 'and')}",
            )


def _regions(spec: JobSpec) -> Iterator[Violation]:
    """Instances that are sold only in capacity blocks, in a region without such blocks."""
    region = spec.job.region
    for index, role in enumerate(spec.job.roles):
        prices = [
            price
            for price in catalogue().prices
            if price.instance == role.instance and price.usd_per_hour is not None
        ]
        blocks = [price for price in prices if price.kind.startswith("capacity_block")]
        has_on_demand = any(price.kind == "on_demand" for price in prices)
        if not region or not blocks or has_on_demand or any(covers(p, region) for p in prices):
            continue
        regions = sorted({code for price in blocks for code in codes(price)})
        regions_text = enumerated(regions, "and")
        yield Violation(
            "region" if "region" in spec.lines else f"roles.{index}.instance",
            f"{role.instance} in {region}; its capacity blocks are sold in {regions_text}",
            f"choose {enumerated(regions, 'or')}",
        )


_EFA_BATCH: Final = 'AWS Batch user guide, "Elastic Fabric Adapter"'
RULES: Final = [
    JobRule(
        "efa-locked-memory",
        "A container with EFA may lock memory without limit.",
        "aws-neuron-samples@2015d65 torch-neuronx/training/aws-batch and "
        "awsome-distributed-training@7217859 1.architectures/3.aws-batch: every job definition "
        "with EFA lifts memlock",
        _unlocked_efa,
        Severity.WARNING,
        formats=_DOCKER,
    ),
    JobRule(
        "efa-permissions",
        "An EFA device of a Batch container has the permissions READ, WRITE and MKNOD.",
        _EFA_BATCH,
        _efa_permissions,
        formats=("batch",),
    ),
    JobRule(
        "efa-huge-pages",
        "A pod whose EFA is told to use huge pages asks for some.",
        'Kubernetes documentation, "Manage HugePages": pods consume them by '
        "hugepages-<size>; awsome-distributed-training@7217859 1.architectures/efa-cheatsheet.md, "
        "FI_EFA_USE_HUGE_PAGE",
        _huge_pages,
        Severity.WARNING,
        formats=MANIFESTS,
    ),
    JobRule(
        "huge-pages-alone",
        "A container with huge pages also asks for memory or cpu.",
        "Kubernetes pkg/apis/core/validation: HugePages require cpu or memory",
        _pages_alone,
        formats=MANIFESTS,
    ),
    JobRule(
        "shared-memory",
        "A container whose data loader has workers has more than 64 MiB of /dev/shm.",
        'PyTorch README.md, "Docker Image": the default shared memory segment is not enough for '
        "data loaders with several processes",
        _shared_memory,
        Severity.WARNING,
        formats=(*_DOCKER, *(name for name in MANIFESTS if name not in _REMOTE_COMMANDS)),
    ),
    JobRule(
        "container-size",
        "A container of Docker states its memory, and in Batch its vCPUs.",
        "AWS Batch API reference, ContainerProperties, memory and vcpus; Amazon ECS API reference, "
        "ContainerDefinition, memory",
        _stated_sizes,
        formats=_DOCKER,
    ),
    JobRule(
        "device-number",
        "A container has only devices that its instance has.",
        "aws-neuron-sdk@81ce03ae deploy/tutorials/oci-hook.rst, ECS: up to the max number of "
        "devices for the specified instance",
        _device_numbers,
    ),
    JobRule(
        "device-unmapped",
        "A container that sets Neuron's runtime has devices.",
        "aws-neuron-sdk@81ce03ae deploy/tutorials/oci-hook.rst, Introduction",
        _unmapped_devices,
        Severity.WARNING,
        formats=_DOCKER,
    ),
    JobRule(
        "instance-memory",
        "A replica asks for less memory than its instance has.",
        'instance types of the catalogue; AWS Batch user guide, "Reserve system '
        'memory": the agent and the system keep a part',
        _memory,
    ),
    JobRule(
        "memory-unit",
        "A container with Neuron devices has 1 GiB of memory or more.",
        "AWS Batch API reference, ResourceRequirement (MiB); Amazon ECS API reference, "
        "ContainerDefinition, memory (MiB); sbatch(1), --mem (MiB); kubernetes.io docs, Resource "
        "units in Kubernetes (bytes)",
        _memory_units,
        Severity.WARNING,
    ),
    JobRule(
        "instance-vcpus",
        "A replica asks for no more vCPUs than its instance has.",
        "instance types of the catalogue",
        _vcpus,
    ),
    JobRule(
        "batch-variable",
        "No variable of a Batch job begins with AWS_BATCH.",
        "AWS Batch API reference, ContainerProperties, environment",
        _batch_variables,
        formats=_BATCH,
    ),
    JobRule(
        "sagemaker-instance",
        "A job of SageMaker has an instance type that its API has for this use.",
        "Amazon SageMaker API reference, TrainingInstanceType and ProductionVariantInstanceType "
        "(botocore 1.44.5)",
        _sagemaker_types,
        formats=tuple(_SAGEMAKER),
    ),
    JobRule(
        "instance-region",
        "An instance that is sold in capacity blocks alone is in a region that has them.",
        "prices of the catalogue: capacity blocks, with the day of each",
        _regions,
        Severity.WARNING,
    ),
]
"""Rules of containers and services."""
