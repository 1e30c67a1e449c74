"""The logical cores of a step on the node of a task: all of its devices, or the named ones."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from trnsim.cluster.slurm.allocation import (
    RESOURCE,
    Scontrol,
    job_devices,
    scontrol,
    step_device_count,
)
from trnsim.cluster.slurm.claim import claimed_devices
from trnsim.cluster.slurm.step import SlurmStep
from trnsim.errors import BadInput
from trnsim.instance import device_sets
from trnsim.instance.cores import VISIBLE, parse_cores
from trnsim.instance.model import InstanceModel


def node_cores(
    step: SlurmStep,
    model: InstanceModel,
    environment: Mapping[str, str],
    run: Scontrol = scontrol,
) -> range:
    """The cores on the task's node.

    NEURON_RT_VISIBLE_CORES narrows these cores; without scontrol it names them.

    Raises:
        BadInput: the devices are no legal set, or cores are named that the step lacks.
    """
    visible_cores = environment.get(VISIBLE)
    try:
        devices = node_devices(step, model, run)
    except BadInput:
        if visible_cores is None or shutil.which("scontrol") is not None:
            raise
        devices = tuple(range(len(model.devices)))
    first_core = model.devices[devices[0]].core_ids.start
    cores = range(first_core, model.devices[devices[-1]].core_ids.stop)
    if visible_cores is None:
        return cores
    visible_numbers = parse_cores(visible_cores)
    if visible_numbers[0] not in cores or visible_numbers[-1] not in cores:
        raise BadInput(
            f"{VISIBLE}={visible_cores!r}; legal: cores {cores.start} to {cores.stop - 1}, of "
            f"devices {_text(devices)} that step {step.name} has on {step.host}",
            fix=f"unset {VISIBLE}",
        )
    return range(visible_numbers[0], visible_numbers[-1] + 1)


def node_devices(
    step: SlurmStep,
    model: InstanceModel,
    run: Scontrol = scontrol,
    lock_root: Path | None = None,
) -> tuple[int, ...]:
    """The step's devices on the task's node, ascending; all where none are declared to Slurm.

    Raises:
        BadInput: the devices are no legal set of the instance.
    """
    devices = job_devices(step, run)[step.host]
    if not devices:
        return tuple(range(len(model.devices)))
    if devices[-1] >= len(model.devices):
        raise BadInput(
            f"Slurm gave device {devices[-1]} of {step.host}; {model.name} has {len(model.devices)}"
            f", 0 to {len(model.devices) - 1}",
            fix=f"write gres.conf anew: trnsim slurm gres --on {model.name}",
        )
    count = step_device_count(step, run)
    refusal = device_sets.refusal(model.name, len(devices) if count is None else count)
    if refusal is not None:
        raise BadInput(refusal.reason, fix=refusal.fix, source=refusal.source)
    if count is not None and count < len(devices):
        return claimed_devices(step, model.name, count, devices, lock_root)
    if not device_sets.is_legal(model.name, devices):
        legal_sets = ", ".join(map(_text, device_sets.legal_sets(model.name, len(devices))))
        raise BadInput(
            f"Slurm gave step {step.name} the devices {_text(devices)} of {step.host}; legal sets "
            f"of {len(devices)} on {model.name}: {legal_sets}",
            fix="give jobs of each number of devices nodes of their own, with the gres.conf of "
            f"trnsim slurm gres; or request all: --gres={RESOURCE}:{len(model.devices)}",
            source=device_sets.rule(model.name).provenance.source,
        )
    return devices


def _text(devices: tuple[int, ...]) -> str:
    if devices == tuple(range(devices[0], devices[-1] + 1)) and len(devices) > 1:
        return f"{devices[0]}-{devices[-1]}"
    return ",".join(map(str, devices))
