"""The job of a plan: its instances, a rank for each logical core, and the layout as options.

The options are named as in NeMo and Megatron, and the user's training script reads them. The
rendezvous of ranks is the address in MASTER_ADDR, which every format defines in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trnsim.jobs.job import Job, Role
from trnsim.place.machine import Machine
from trnsim.system.train.layout import Layout

HEAD_PORT: Final = 29500
"""Port of the head of torchrun's ranks. Source: PyTorch, torchrun's documentation."""
_PROGRAM: Final = "train.py"


def planned_job(
    machine: Machine,
    layout: Layout,
    *,
    name: str = "train",
    model: str = "",
    steps: int | None = None,
    words: Sequence[str] = (),
) -> Job:
    """The job that runs a layout on a machine.

    Args:
        machine: the instances.
        layout: the layout of their ranks.
        name: name of the job.
        model: name of the model.
        steps: optimizer steps of the run.
        words: further words of the command.
    """
    step_words = ["--train-iters", str(steps)] if steps else []
    efa = machine.instance.efa_devices if machine.count > 1 else 0
    role = Role(
        replicas=machine.count,
        instance=machine.instance.name,
        is_exclusive=True,
        processes=machine.ranks_per_instance,
        devices=machine.instance.count if machine.is_neuron else None,
        gpus=None if machine.is_neuron else machine.instance.count,
        efa=efa or None,
        is_memlock_unlimited=efa > 0,
        environment=tuple(_environment(machine)),
        command=(*_launcher(machine), _PROGRAM, *layout_options(layout), *step_words, *words),
    )
    return Job(name=name, model=model, roles=(role,))


def layout_options(layout: Layout) -> list[str]:
    """The layout as words of a training script's command."""
    options = {
        "tensor-model-parallel-size": layout.tensor,
        "pipeline-model-parallel-size": layout.pipeline,
        "context-parallel-size": layout.context,
        "expert-model-parallel-size": layout.expert,
        "micro-batch-size": layout.micro_batch,
        "global-batch-size": layout.global_batch,
        "seq-length": layout.sequence,
        "zero-stage": layout.zero,
        "recompute-granularity": layout.recompute,
        "optimizer": layout.optimizer,
    }
    if layout.virtual > 1:
        options["virtual-pipeline-model-parallel-size"] = layout.virtual
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    if layout.is_sequence:
        words.append("--sequence-parallel")
    return [*words, f"--{layout.dtype}"]


def _launcher(machine: Machine) -> list[str]:
    words = ["torchrun", "--nproc-per-node", str(machine.ranks_per_instance)]
    if machine.count == 1:
        return [*words, "--standalone"]
    endpoint = f"$MASTER_ADDR:{HEAD_PORT}"
    rendezvous_options = ["--rdzv-backend", "c10d", "--rdzv-endpoint", endpoint]
    return [*words, "--nnodes", str(machine.count), *rendezvous_options]


def _environment(machine: Machine) -> list[tuple[str, str]]:
    """Variables by which ranks find each other and their cores."""
    variables: list[tuple[str, str]] = []
    if machine.count > 1:
        variables = [
            ("FI_PROVIDER", "efa"),
            ("FI_EFA_USE_DEVICE_RDMA", "1"),
            ("FI_EFA_FORK_SAFE", "1"),
        ]
    if machine.lnc:
        variables += [
            ("NEURON_RT_NUM_CORES", "1"),
            ("NEURON_LOGICAL_NC_CONFIG", str(machine.lnc)),
        ]
    return variables
