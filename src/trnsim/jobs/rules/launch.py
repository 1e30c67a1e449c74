"""Rules of how a job is started: logical cores, ranks, the address of the root, EFA's variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from trnsim.arch.targets import TARGETS
from trnsim.formatting import counted
from trnsim.jobs.finding import JobRule, Severity, Violation
from trnsim.jobs.job import LNC_VARIABLES, JobKind, Role
from trnsim.jobs.parallelism import RANK_OPTIONS, options_of, whole_number
from trnsim.jobs.ranks import is_neuron, machine_of, ranks_of
from trnsim.jobs.spec import JobSpec, is_template

_LNC_OPTION: Final = "logical-nc-config"
_COMPILER_FLAGS: Final = "NEURON_CC_FLAGS"
_COMPILER_LNC: Final = re.compile(r"(?:^|\s)(?:--?lnc|--logical-nc-config)[=\s]\s*(\d{1,3})\b")
_ROOT: Final = "NEURON_RT_ROOT_COMM_ID"
_PROVIDER: Final = "FI_PROVIDER"
_RDMA: Final = "FI_EFA_USE_DEVICE_RDMA"
_EFA_VARIABLES: Final = {_PROVIDER: "efa", _RDMA: "1"}
_LNC_PAGE: Final = "aws-neuron-sdk about-neuron/arch/neuron-features/logical-neuroncore-config.rst"
_OPERATOR_FORMATS: Final = ("pytorchjob", "hyperpod", "sagemaker-training")
"""Formats whose operator or toolkit sets the number of nodes (PET_NNODES)."""
_SCALING_FORMATS: Final = (
    *("parallelcluster", "pytorchjob", "hyperpod", "rayjob", "sagemaker-endpoint"),
)
"""Formats with roles that scale."""
_SETTING_FILES: Final = re.compile(r"^\s*(source|\.)\s", re.MULTILINE)


def _legal_lnc(role: Role) -> tuple[int, ...]:
    """Legal numbers of cores in a logical core, for the role's chip; for all chips if unknown."""
    machine = machine_of(role)
    chips = [
        target for target in TARGETS.values() if machine is None or target.chip == machine.chip.name
    ]
    return tuple(sorted({1} | {int(target.core.logical_core_max) for target in chips}))


def _lnc_of_chip(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        legal = _legal_lnc(role)
        words = " or ".join(map(str, legal))
        chip_text = f" on {role.instance}" if machine_of(role) else ""
        settings = [
            (name, value)
            for name in LNC_VARIABLES
            if (value := role.variable(name)) is not None and not is_template(value)
        ]
        option = options_of(role.command).get(_LNC_OPTION, "")
        if option and not is_template(option):
            settings.append((f"--{_LNC_OPTION}", option))
        for setting, value in settings:
            if value not in map(str, legal):
                yield Violation(
                    spec.option_field(index, _LNC_OPTION)
                    if setting.startswith("--")
                    else f"roles.{index}.environment.{setting}",
                    f"{setting} sets LNC {value}{chip_text}; legal: {words}",
                    f"set {legal[-1]}",
                )
    cores = spec.job.parallelism.logical_cores
    if (
        cores is not None
        and spec.job.roles
        and cores not in (legal := _legal_lnc(spec.job.roles[0]))
    ):
        words = " or ".join(map(str, legal))
        yield Violation(
            "parallelism.logical_cores", f"lnc is {cores}; legal: {words}", f"set {legal[-1]}"
        )


def _lnc_agreement(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        runtime = role.lnc
        if runtime is None:
            continue
        name = next(name for name in LNC_VARIABLES if whole_number(role.variable(name)) is not None)
        flags = _COMPILER_LNC.findall(role.variable(_COMPILER_FLAGS) or "")
        settings = {
            "the framework": spec.job.parallelism.logical_cores,
            f"--{_LNC_OPTION}": whole_number(options_of(role.command).get(_LNC_OPTION)),
            _COMPILER_FLAGS: int(flags[-1]) if flags else None,
        }
        for setting, cores in settings.items():
            if cores is not None and cores != runtime:
                yield Violation(
                    f"roles.{index}.environment.{name}",
                    f"{name} is {runtime}, and {setting} has LNC {cores}; the compiled model and "
                    "the runtime need the same",
                    f"set {name}={cores}",
                )


def _ranks_of_cores(spec: JobSpec) -> Iterator[Violation]:
    if spec.job.kind is not JobKind.TRAINING:
        return
    for index, role in enumerate(spec.job.roles):
        machine, ranks = machine_of(role), ranks_of(role)
        if machine is None or ranks is None:
            continue
        devices = min(role.devices or machine.instance.count, machine.instance.count)
        lnc = role.lnc or spec.job.parallelism.logical_cores or machine.lnc or 1
        if lnc not in _legal_lnc(role):
            continue
        cores = devices * machine.chip.cores // lnc
        if ranks > cores > 0:
            field = f"roles.{index}.processes"
            yield Violation(
                field if field in spec.lines else spec.option_field(index, *RANK_OPTIONS),
                f"{ranks} ranks on each {role.instance} ({counted(devices, 'device')}), which has "
                f"{counted(cores, 'NeuronCore')} at LNC {lnc}; a rank takes one at least",
                f"start {counted(cores, 'rank')}",
            )


def _root_address(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        path = f"roles.{index}.environment.{_ROOT}"
        if (
            role.variable(_ROOT) is not None
            or spec.is_template(path)
            or _may_set_variables(spec, role)
        ):
            continue
        if _is_multi_host_test(role):
            reason = "nccom-test on several hosts starts its ranks by mpi"
        elif "," in (role.variable("NEURON_PJRT_PROCESSES_NUM_DEVICES") or ""):
            reason = "processes of JAX join one pool of collectives"
        else:
            continue
        yield Violation(
            f"roles.{index}.command",
            f"{reason}, and {_ROOT} is not set",
            f"set {_ROOT} to the address of the first host and a free port, 10.0.1.2:46820",
        )


def _is_multi_host_test(role: Role) -> bool:
    words = role.command
    if not words or PurePosixPath(words[0]).name != "nccom-test":
        return False
    names = [word.partition("=")[0] for word in words]
    if {"-S", "--slurm-mode"} & set(names):
        return False
    nodes = [next_word for word, next_word in pairwise(words) if word in ("-N", "--nnodes")]
    is_several = (role.replicas or 0) > 1 and nodes[-1:] != ["1"]
    return is_several and bool({"-s", "--hosts", "--hosts-file"} & set(names))


def _may_set_variables(spec: JobSpec, role: Role) -> bool:
    """True if an image, or a file that a script reads, may set variables."""
    return bool(role.image) or any(
        isinstance(field.value, str) and _SETTING_FILES.search(field.value)
        for field in spec.job.kept_fields
        if field.keys[0] == "script"
    )


def _crosses_nodes(role: Role) -> bool:
    """True if ranks of several instances with EFA form one group."""
    machine = machine_of(role)
    if (role.replicas or 0) < 2 or not is_neuron(role):  # noqa: PLR2004 - two are several
        return False
    if machine is not None and not machine.instance.efa_bytes_per_s:
        return False
    nodes = options_of(role.command).get("nnodes", "1")
    return nodes != "1"


def _efa_contradiction(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        if not _crosses_nodes(role):
            continue
        for name, value in _EFA_VARIABLES.items():
            text = role.variable(name)
            if text is not None and not is_template(text) and text != value:
                yield Violation(
                    f"roles.{index}.environment.{name}",
                    f"{name} is {text}; ranks of {role.replicas} instances exchange over EFA, "
                    f"for which it is {value}",
                    f"set {name}={value}",
                )


def _efa_absence(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        if not _crosses_nodes(role) or _may_set_variables(spec, role):
            continue
        missing = [
            f"{name}={value}"
            for name, value in _EFA_VARIABLES.items()
            if role.variable(name) is None
            and not spec.is_template(f"roles.{index}.environment.{name}")
        ]
        if missing:
            yield Violation(
                f"roles.{index}.command",
                f"ranks of {role.replicas} instances form one group without {', '.join(missing)}",
                f"export {' '.join(missing)}",
            )


def _nodes_of_launcher(spec: JobSpec) -> Iterator[Violation]:
    """Torchrun on several instances with another number of nodes, or without one."""
    counts = [role.replicas for role in spec.job.roles]
    if spec.job.kind is not JobKind.TRAINING or None in counts:
        return
    total = sum(count for count in counts if count is not None)
    for index, role in enumerate(spec.job.roles):
        options = options_of(role.command)
        replicas = role.replicas or 0
        if "nproc-per-node" not in options or spec.is_template(f"roles.{index}.replicas"):
            continue
        nodes = options.get("nnodes")
        launcher_nodes = whole_number(nodes)
        if nodes is None and replicas > 1 and spec.format not in _OPERATOR_FORMATS:
            reason = f"torchrun on {replicas} replicas without --nnodes: each trains by itself"
        elif launcher_nodes is not None and launcher_nodes not in (1, replicas, total):
            reason = f"torchrun waits for {nodes} nodes, and the job has {total}"
        else:
            continue
        yield Violation(
            spec.option_field(index, "nnodes")
            if nodes
            else spec.option_field(index, *RANK_OPTIONS),
            reason,
            f"set --nnodes={total}",
        )


def _growth(spec: JobSpec) -> Iterator[Violation]:
    for index, role in enumerate(spec.job.roles):
        least_replicas, most_replicas = role.least_replicas, role.replicas
        if (
            least_replicas is not None
            and most_replicas is not None
            and least_replicas > most_replicas
        ):
            yield Violation(
                f"roles.{index}.least_replicas",
                f"{least_replicas} replicas at least, and {most_replicas} at most",
                f"set {most_replicas} or fewer, or {least_replicas} as the most",
            )


def _late_options(spec: JobSpec) -> Iterator[Violation]:
    for field in spec.job.kept_fields:
        if field.keys[0] == "ignored":
            yield Violation(
                f"ignored.{field.keys[1]}",
                f"{field.value} stands after the first command, where sbatch reads no options",
                "move it to the other options, before the first command",
            )


def _assumed_branches(spec: JobSpec) -> Iterator[Violation]:
    for path, branch in spec.branches.items():
        yield Violation(
            path,
            f"the command stands in {branch}; it is read as if that ran once",
            "none is needed if it does; a command outside of the block is read without it",
        )


RULES: Final = (
    JobRule(
        "lnc-of-chip",
        "LNC is 1, or 2 on chips that join two NeuronCores.",
        f"{_LNC_PAGE}; compiler/error-codes/EARG001.rst",
        _lnc_of_chip,
    ),
    JobRule(
        "lnc-agreement",
        "The runtime's LNC is the one that the model is compiled for.",
        f"{_LNC_PAGE}, Neuron compiler flags",
        _lnc_agreement,
    ),
    JobRule(
        "ranks-of-cores",
        "A replica starts at most one rank for each of its logical NeuronCores.",
        "aws-neuron-sdk neuron-runtime/guides/nrt-developer-guide.rst, NEURON_RT_NUM_CORES",
        _ranks_of_cores,
    ),
    JobRule(
        "root-address",
        "Ranks that no torchrun starts need the address of the first one.",
        "aws-neuron-sdk tools/neuron-sys-tools/nccom-test.rst, MPI Execution; "
        "neuron-runtime/guides/nrt-developer-guide.rst, NEURON_RT_ROOT_COMM_ID",
        _root_address,
    ),
    JobRule(
        "efa-variables",
        "Ranks of several instances exchange over EFA.",
        "aws-neuron-sdk frameworks/torch/torch-neuronx/setup-trn1-multi-node-execution.rst, "
        "environment variables",
        _efa_contradiction,
    ),
    JobRule(
        "efa-variables-unset",
        "Variables choose EFA for ranks of several instances.",
        "aws-neuron-sdk frameworks/torch/torch-neuronx/setup-trn1-multi-node-execution.rst, "
        "environment variables",
        _efa_absence,
        Severity.WARNING,
        ("sbatch",),  # pods and containers have variables of their images
    ),
    JobRule(
        "launcher-nodes",
        "torchrun is told of as many nodes as the job has.",
        "PyTorch, torchrun (Elastic Launch), Transitioning from torch.distributed.launch, --nnodes",
        _nodes_of_launcher,
        Severity.WARNING,
    ),
    JobRule(
        "least-replicas",
        "A role that grows begins with no more replicas than it ends with.",
        "aws-parallelcluster 3.16, MinCount and MaxCount; training-operator v1.9.0, ElasticPolicy; "
        "kuberay, WorkerGroupSpec; Amazon SageMaker API reference, ManagedInstanceScaling",
        _growth,
        formats=_SCALING_FORMATS,
    ),
    JobRule(
        "late-options",
        "Options of sbatch stand before the first command.",
        "Slurm, sbatch(1), DESCRIPTION",
        _late_options,
        Severity.WARNING,
        ("sbatch",),
    ),
    JobRule(
        "assumed-branch",
        "A command within a block of a script is read as if the block ran once.",
        "bash(1), Compound Commands",
        _assumed_branches,
        Severity.NOTE,
        ("sbatch", "script"),
    ),
)
