"""Files that start a layout on a cluster: for torchrun, Slurm or Kubernetes.

They carry the sizes of the layout under the names of NeMo and Megatron's options, which the user's
training script reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trnsim.errors import BadInput
from trnsim.place.machine import Machine
from trnsim.system.train.layout import Layout

KINDS: Final = ("torchrun", "sbatch", "k8s")
_PORT: Final = 29500


def check(kind: str) -> None:
    """Refuse an unknown kind of file.

    Raises:
        BadInput: lists the legal kinds.
    """
    if kind not in KINDS:
        raise BadInput(f"--emit {kind}; legal: {', '.join(KINDS)}", fix="for example torchrun")


def text(kind: str, machine: Machine, layout: Layout, more: Sequence[str] = ()) -> str:
    """The file of a kind that starts the layout; `more` are further words of the command.

    Raises:
        BadInput: the kind is unknown.
    """
    check(kind)
    writer = {"torchrun": _torchrun, "sbatch": _sbatch, "k8s": _kubernetes}[kind]
    return writer(machine, layout, more)


def _arguments(layout: Layout) -> list[str]:
    """The layout as options of a training script."""
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
    words = [f"--{name} {value}" for name, value in options.items()]
    if layout.is_sequence:
        words.append("--sequence-parallel")
    return [*words, f"--{layout.dtype}"]


def _environment(machine: Machine) -> dict[str, str]:
    """Environment variables by which ranks find each other and their cores."""
    variables = {"FI_PROVIDER": "efa", "FI_EFA_FORK_SAFE": "1"} if machine.count > 1 else {}
    if machine.lnc:
        variables |= {"NEURON_RT_NUM_CORES": "1", "NEURON_LOGICAL_NC_CONFIG": str(machine.lnc)}
    return variables


def _command(machine: Machine, layout: Layout, more: Sequence[str], *, head: str, rank: str) -> str:
    words = [
        "torchrun",
        f"--nproc-per-node {machine.ranks_per_instance}",
        f"--nnodes {machine.count}",
        f"--node-rank {rank}",
        f"--master-addr {head}",
        f"--master-port {_PORT}",
        "train.py",
    ]
    return " \\\n    ".join([*words, *_arguments(layout), *more])


def _exports(machine: Machine) -> list[str]:
    return [f"export {name}={value}" for name, value in _environment(machine).items()]


def _torchrun(machine: Machine, layout: Layout, more: Sequence[str]) -> str:
    about = f"# {layout} on {machine.count} x {machine.instance.name}; NODE_RANK, HEAD: of each."
    command = _command(machine, layout, more, head="${HEAD:-localhost}", rank="${NODE_RANK:-0}")
    return "\n".join(["#!/bin/sh", about, *_exports(machine), command, ""])


def _sbatch(machine: Machine, layout: Layout, more: Sequence[str]) -> str:
    command = _command(machine, layout, more, head="$HEAD", rank="\\$SLURM_NODEID")
    return "\n".join(
        [
            "#!/bin/bash",
            f"#SBATCH --job-name=train --nodes={machine.count} --ntasks-per-node=1 --exclusive",
            f"# {layout} on {machine.count} x {machine.instance.name}",
            *_exports(machine),
            'HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            f'srun bash -c "{command}"',
            "",
        ]
    )


def _kubernetes(machine: Machine, layout: Layout, more: Sequence[str]) -> str:
    """A Job with an index for each instance, whose first pod the others find by a service."""
    command = _command(machine, layout, more, head="train-0.train", rank="$JOB_COMPLETION_INDEX")
    indented = command.replace("\n", "\n" + 14 * " ")
    device = "aws.amazon.com/neuron" if machine.lnc else "nvidia.com/gpu"
    environment = "".join(
        f'\n            - {{name: {name}, value: "{value}"}}'
        for name, value in _environment(machine).items()
    )
    efa = ""
    if machine.count > 1 and machine.instance.efa_devices:
        efa = f"\n              vpc.amazonaws.com/efa: {machine.instance.efa_devices}"
    return f"""# {layout} on {machine.count} x {machine.instance.name}
apiVersion: v1
kind: Service
metadata: {{name: train}}
spec:
  clusterIP: None
  selector: {{job-name: train}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: train}}
spec:
  completions: {machine.count}
  parallelism: {machine.count}
  completionMode: Indexed
  template:
    spec:
      subdomain: train
      restartPolicy: Never
      nodeSelector: {{node.kubernetes.io/instance-type: {machine.instance.name}}}
      containers:
        - name: train
          image: IMAGE  # yours
          command: [sh, -c]
          args:
            - |
              {indented}
          env:{environment or " []"}
          resources:
            limits:
              {device}: {machine.instance.count}{efa}
"""
