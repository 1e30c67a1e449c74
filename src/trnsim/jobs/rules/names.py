"""Rules of names: of variables, jobs and containers, and of images that are missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from trnsim.jobs.finding import JobRule, Severity, Violation
from trnsim.jobs.formats import MANIFESTS
from trnsim.jobs.spec import JobSpec, is_template

_RUNTIME: Final = """
    NEURON_RT_VISIBLE_CORES NEURON_RT_NUM_CORES NEURON_RT_LOG_LOCATION NEURON_RT_LOG_LEVEL
    NEURON_RT_LOG_LEVEL_TDRV NEURON_RT_LOG_LEVEL_NRT NEURON_RT_EXEC_TIMEOUT NEURON_RT_VALIDATE_HASH
    NEURON_RT_ROOT_COMM_ID NEURON_RT_VIRTUAL_CORE_SIZE NEURON_RT_STOCHASTIC_ROUNDING_EN
    NEURON_RT_STOCHASTIC_ROUNDING_SEED NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS
    NEURON_RT_INSPECT_ENABLE NEURON_RT_INSPECT_OUTPUT_DIR NEURON_RT_INSPECT_DEVICE_PROFILE
    NEURON_RT_INSPECT_SYSTEM_PROFILE NEURON_RT_INSPECT_EVENT_FILTER_TYPE
    NEURON_RT_INSPECT_EVENT_FILTER_NC NEURON_RT_INSPECT_SYS_TRACE_MAX_EVENTS_PER_NC
    NEURON_RT_ENABLE_DGE_NOTIFICATIONS NEURON_RT_S3_CORE_DUMP_PREFIX
    NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY NEURON_RT_MULTI_INSTANCE_SHARED_WEIGHTS
    NEURON_RT_DBG_CC_DMA_PACKET_SIZE NEURON_RT_DBG_DMA_PACKETIZATION_SIZE
    NEURON_RT_DBG_DUMP_INPUTS_ON_ERR NEURON_RT_CONTIGUOUS_SCRATCHPAD NEURON_RT_ONE_THREAD_PER_CORE
    NEURON_RT_RANKS_PER_NETWORK_PROXY NEURON_RT_NUMERICAL_ERRORS_VERBOSITY
    NEURON_RT_LOW_LATENCY_TASKS_CPU_AFFINITY NEURON_RT_GPSIMD_STDOUT_QUEUE_SIZE_BYTES
    NEURON_RT_ASYNC_SENDRECV_EXPERIMENTAL_ENABLED NEURON_RT_ASYNC_SENDRECV_BOOTSTRAP_PORT
    NEURON_RT_ALLOW_LEGACY_NEFF NEURON_LOGICAL_NC_CONFIG NEURON_PROCESS_TAG NEURON_CC_FLAGS
    NEURON_COMPILE_CACHE_URL NEURON_EXTRACT_GRAPHS_ONLY NEURON_PARALLEL_COMPILE
    NEURON_PARALLEL_COMPILE_MAX_RETRIES NEURON_PARALLEL_COMPILE_DUMP_RESULTS NEURON_FRAMEWORK_DEBUG
    NEURON_PLATFORM_TARGET_OVERRIDE NEURON_PJRT_PROCESSES_NUM_DEVICES NEURON_PJRT_PROCESS_INDEX
    NEURON_PJRT_WORLD_SIZE NEURON_DUMP_HLO_SNAPSHOT NEURON_NC0_ONLY_SNAPSHOT
    NEURON_RUN_TRIVIAL_COMPUTATION_ON_CPU NEURON_SKIP_EFA_AFFINITY NEURON_SCRATCHPAD_PAGE_SIZE
    NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE NEURON_FUSE_SOFTMAX
    NEURON_TRANSFER_WITH_STATIC_RING_OPS NEURON_ULTRASERVER_NODE_CONFIG
"""
_NETWORK: Final = """
    FI_PROVIDER FI_LOG_LEVEL FI_EFA_USE_DEVICE_RDMA FI_EFA_FORK_SAFE FI_EFA_USE_HUGE_PAGE
    FI_EFA_ENABLE_SHM_TRANSFER FI_EFA_SET_CUDA_SYNC_MEMOPS
"""
_VARIABLES: Final = frozenset((_RUNTIME + _NETWORK).split())
"""Variables that the runtime, its frameworks and EFA's library read.

Sources: aws-neuron-sdk neuron-runtime/guides/configuration-guide.rst and nrt-developer-guide.rst,
libraries and frameworks guides; libfabric fi_efa(7), RUNTIME PARAMETERS.
"""
_PREFIXES: Final = ("NEURON", "FI_")
_LEAST_SIMILARITY: Final = 0.93
"""Minimum similarity of a misspelled variable to a known one; two settings differ by more."""
_NAMES: Final = {
    "sagemaker-training": (r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", "letters, digits and - within"),
    "sagemaker-endpoint": (r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", "letters, digits and - within"),
    "batch": (r"[a-zA-Z0-9][\w-]{0,127}", "letters, digits, - and _"),
    "batch-eks": (r"[a-zA-Z0-9][\w-]{0,127}", "letters, digits, - and _"),
    "ecs": (r"[\w-]{1,255}", "letters, digits, - and _"),
}
"""Patterns of legal names and their words, by format; other formats have `_MANIFEST`.

Sources: Amazon SageMaker API reference, CreateTrainingJob and CreateEndpointConfig; AWS Batch,
RegisterJobDefinition; Amazon ECS, RegisterTaskDefinition.
"""
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_MANIFEST: Final = (
    rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*",
    "small letters, digits, - and . within",
)
_NEEDS_IMAGE: Final = (*(name for name in MANIFESTS if name != "batch-eks"), "ecs", "batch")
"""Formats whose described fields do not require an image, although a container needs one."""
_REPLICAS: Final = "pytorchReplicaSpecs"
_CONTAINER: Final = "pytorch"
"""The mapping of a PyTorchJob's roles, and the name of the container that they have."""


def _misspelled_variables(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        for name, _ in role.environment:
            if name in _VARIABLES or not name.startswith(_PREFIXES):
                continue
            near_names = get_close_matches(name[:100], _VARIABLES, 1, _LEAST_SIMILARITY)
            if near_names:
                yield Violation(
                    f"roles.{index}.environment.{name}.name",
                    f"{name} is no variable that is read; {near_names[0]} is",
                    f"rename it to {near_names[0]}",
                )


def _job_names(spec: JobSpec) -> Iterator[Violation]:
    pattern, words = _NAMES.get(spec.format, _MANIFEST)
    name = spec.job.name
    if name and not is_template(name) and not re.fullmatch(pattern, name, re.ASCII):
        legal = re.sub(r"[^a-z0-9]+", "-", name[:63].lower()).strip("-") or "train"
        yield Violation("name", f"the name is {name[:80]!r}; legal: {words}", f"name it {legal}")


def _missing_images(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        path = f"roles.{index}.image"
        if not role.image and not spec.is_template(path):
            field = f"roles.{index}.container"
            yield Violation(field, "the container has no image", "add image: REPOSITORY:TAG")


def _container_names(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        pod = ("spec", _REPLICAS, role.name, "template", "spec", "containers")
        names = {
            field.keys[-2]: str(field.value)
            for field in spec.job.kept_fields
            if field.keys[: len(pod)] == pod and field.keys[len(pod) + 1 :] == ("name",)
        }
        is_templated = any(map(is_template, names.values()))
        if 0 in names and _CONTAINER not in names.values() and not is_templated:
            yield Violation(
                f"roles.{index}.container",
                f"no container of {role.name} is named {_CONTAINER}, which the operator looks for",
                f"rename {names[0]} to {_CONTAINER}",
            )


def _replica_counts(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        if role.replicas is None:
            continue
        if role.name == "Master" and role.replicas != 1:
            reason = f"{role.replicas} replicas of Master; legal: 1"
            yield Violation(f"roles.{index}.replicas", reason, "set 1, and the others for Worker")
        elif role.replicas < 1:
            reason = f"{role.replicas} replicas of {role.name}; legal: 1 or more"
            yield Violation(f"roles.{index}.replicas", reason, f"set 1, or take {role.name} out")


_WEBHOOK: Final = "training-operator v1.9.0 pkg/webhooks/pytorch/pytorchjob_webhook.go"

RULES: Final = (
    JobRule(
        "misspelled-variable",
        "No variable of Neuron or EFA has a name that is almost one that is read.",
        "aws-neuron-sdk neuron-runtime/guides/configuration-guide.rst; fi_efa(7)",
        _misspelled_variables,
        Severity.WARNING,
    ),
    JobRule(
        "job-name",
        "The name of a job is legal where it is created.",
        "API references of SageMaker, AWS Batch and Amazon ECS; kubernetes.io docs, Object Names "
        "and IDs, DNS Subdomain Names",
        _job_names,
        formats=tuple(dict.fromkeys((*MANIFESTS, *_NAMES))),
    ),
    JobRule(
        "container-image",
        "A container has an image.",
        "kubernetes pkg/apis/core/validation/validation.go, validateContainerCommon; AWS Batch API "
        "reference, ContainerProperties; Amazon ECS API reference, ContainerDefinition",
        _missing_images,
        formats=_NEEDS_IMAGE,
    ),
    JobRule(
        "container-name",
        "A pod of a PyTorchJob has a container that is named pytorch.",
        _WEBHOOK,
        _container_names,
        formats=("pytorchjob",),
    ),
    JobRule(
        "role-replicas",
        "A PyTorchJob has one Master, and one Worker or more where it names them.",
        _WEBHOOK,
        _replica_counts,
        formats=("pytorchjob",),
    ),
)
