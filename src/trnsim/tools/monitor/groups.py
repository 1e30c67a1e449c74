"""The groups of metrics of one emulated program, from two of its records.

Counts are of the time between the two records. Utilisation is estimated busy time over estimated
elapsed time of the device, so a program that waits for its host is not shown as idle. The physical
cores of a logical core share its work, so each has its utilisation.

Source: aws-neuron-sdk tools/neuron-sys-tools/neuron-monitor-user-guide.rst.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from trnsim.instance.model import InstanceModel
from trnsim.instance.state.record import (
    ERRORS,
    HOST_MEMORY,
    MEMORY,
    STATUSES,
    LoadedModel,
    ProcessRecord,
    latency_percentiles,
)

_PERCENT: Final = 100
_MODEL_MEMORY: Final = ("constants", "model_code", "runtime_memory", "tensors")
_FIRST_MODEL: Final = 10_000
"""Number below those of all models, as in the page's example."""
_DEVICE_VERSIONS: Final = {"inferentia1": 1, "trainium1": 2, "inferentia2": 3, "trainium2": 4}
"""Device version of each chip: trainium2's from the page, the others' from the public driver
(github aws-neuron/aws-neuron-driver v*/neuron_dhal_v*.c, names of devices)."""


def neuroncore_counters(
    record: ProcessRecord, before: ProcessRecord | None, model: InstanceModel
) -> Any:
    """Utilisation, per cent, and operations a second of each core in use."""
    return {"neuroncores_in_use": {str(core): _core(core, record, before, model)
                                   for core in record.cores}}  # fmt: skip


def _core(
    core: int, record: ProcessRecord, before: ProcessRecord | None, model: InstanceModel
) -> Any:
    percent = round(_PERCENT * record.utilization(core, before=before), 2)
    figures = {"neuroncore_utilization": percent, "flops": _flop_per_s(core, record, before)}
    if record.lnc == 1:
        return figures
    physical_cores = range(core * record.lnc, (core + 1) * record.lnc)
    name = f"nc_v{model.generation}"
    parts = {f"{name}.{nc}": {"neuroncore_utilization": percent} for nc in physical_cores}
    return figures | {model.core_version: parts}


def _flop_per_s(core: int, record: ProcessRecord, before: ProcessRecord | None) -> int:
    """Operations a second of the device's own, estimated time."""
    flop, elapsed_s = record.flop.get(core, 0.0), record.elapsed_s.get(core, 0.0)
    if before is not None:
        flop -= before.flop.get(core, 0.0)
        elapsed_s -= before.elapsed_s.get(core, 0.0)
    return round(max(flop, 0.0) / elapsed_s) if elapsed_s > 0 else 0


def execution_stats(record: ProcessRecord, before: ProcessRecord | None) -> Any:
    """Executions and errors of the period, and latencies of the executions in it."""
    executions = _increases(record.executions, before.executions if before else {}, STATUSES)
    has_run = any(executions.values())
    total, device = latency_percentiles(record, before)
    return {
        "error_summary": _increases(record.errors, before.errors if before else {}, ERRORS),
        "execution_summary": executions,
        "latency_stats": {
            "total_latency": total or dict(record.total_latency_s) or None if has_run else None,
            "device_latency": device or dict(record.device_latency_s) or None if has_run else None,
        },
    }


def _increases(
    counts: Mapping[str, float], before: Mapping[str, float], names: tuple[str, ...]
) -> Any:
    """Increase of each count since `before`; a count that is smaller now began again at 0."""
    increases = {}
    for name in names:
        count, previous_count = counts.get(name, 0), before.get(name, 0)
        increases[name] = int(count - previous_count if count >= previous_count else count)
    return increases


def memory_used(record: ProcessRecord, model: InstanceModel) -> Any:
    """Bytes of the host and of the devices by category and core, and the loaded programs."""
    host = {name: int(record.host_bytes.get(name, 0)) for name in HOST_MEMORY}
    cores = {
        str(core): {name: int(record.memory_bytes.get(core, {}).get(name, 0))
                    for name in sorted(MEMORY)}
        for core in record.cores
    }  # fmt: skip
    usage = {
        "host": sum(host.values()),
        "neuron_device": sum(sum(categories.values()) for categories in cores.values()),
        "usage_breakdown": {"host": host, "neuroncore_memory_usage": cores},
    }
    loaded = [_loaded_program(loaded_model, record, model) for loaded_model in record.models]
    return {"neuron_runtime_used_bytes": usage, "loaded_models": loaded}


def _loaded_program(loaded_model: LoadedModel, record: ProcessRecord, model: InstanceModel) -> Any:
    """A loaded program; of its memory only the constants are known, none of it on the host.

    The page's example has core 0 on device 12, so that cores are numbered within their device.
    """
    device, core = divmod(loaded_model.core, model.devices[0].cores)
    parts = dict.fromkeys(_MODEL_MEMORY, 0) | {"constants": loaded_model.constant_bytes}
    identity = f"{record.pid} {record.start_time} {loaded_model.number}".encode()
    memory = {
        "host": 0,
        "neuron_device": sum(parts.values()),
        "usage_breakdown": {"host": dict.fromkeys(HOST_MEMORY, 0), "neuron_device": parts},
    }
    return {
        "name": loaded_model.name,
        "uuid": hashlib.blake2b(identity, digest_size=16).hexdigest(),
        "model_id": _FIRST_MODEL + loaded_model.number,
        "is_running": loaded_model.is_running,
        "subgraphs": {
            "sg_00": {
                "memory_used_bytes": memory,
                "neuroncore_index": core,
                "neuron_device_index": device,
            }
        },
    }


def hardware_info(model: InstanceModel) -> Any:
    """The devices of the instance; a later chip's version is assumed to be one above its cores'."""
    version = _DEVICE_VERSIONS.get(model.chip, model.generation + 1)
    pairs = {"logical_neuroncore_config": model.lnc} if model.has_pairs else {}
    return {
        "neuron_device_type": model.chip,
        "neuron_device_version": f"v{version}",
        "neuroncore_version": model.core_version,
        "neuron_device_count": len(model.devices),
        "neuron_device_memory_size": model.devices[0].memory_bytes,
        "neuroncore_per_device_count": model.devices[0].cores,
        **pairs,
        "error": "",
    }


def instance_info(model: InstanceModel, instance_id: str) -> Any:
    """The instance; fields that EC2 would fill are empty, and its name says that it is emulated."""
    return {
        "instance_name": "emulated by trnsim",
        "instance_id": instance_id,
        "instance_type": model.name,
        "instance_availability_zone": "",
        "instance_availability_zone_id": "",
        "instance_region": "",
        "ami_id": "",
        "subnet_id": "",
        "error": "",
    }
