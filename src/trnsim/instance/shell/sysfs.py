"""The files of an instance's Neuron devices in sysfs, before any program has run.

Names and levels follow aws-neuron-sdk tools/neuron-sys-tools/neuron-sysfs-user-guide.rst to the
letter. Details that it omits follow the public driver (github aws-neuron/aws-neuron-driver
neuron_sysfs_metrics.c, neuron_cdev.c, v*/neuron_dhal_v*.c; facts only): a directory for each
physical core at every LNC, ECC counts as plain files, modes, and the names of architectures.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trnsim.instance.model import InstanceDevice, InstanceModel

ROOT: Final = "/sys/devices/virtual/neuron_device"
_STATUS_COUNTERS: Final = (
    *("exec_bad_input", "hw_error", "infer_failed_to_queue", "resource_nc_error"),
    *("unsupported_neff_version", "failure", "infer_completed_with_error", "invalid_error"),
    *("oob_error", "success", "generic_error", "infer_completed_with_num_error"),
    *("resource_error", "timeout"),
)
_DEVICE_MEMORY_COUNTERS: Final = (
    *("collectives", "constants", "dma_rings", "driver_memory", "model_code"),
    *("model_shared_scratchpad", "nonshared_scratchpad", "notifications", "runtime_memory"),
    *("tensors", "uncategorized"),
)
_HOST_MEMORY_COUNTERS: Final = (
    *("application_memory", "constants", "dma_buffers", "dma_rings", "driver_memory"),
    *("notifications", "tensors", "uncategorized"),
)
_OTHER_INFO_FILES: Final = (
    *("flop_count", "inference_count", "model_load_count", "reset_fail_count"),
    *("reset_req_count", "nc_time_in_use"),
)
ECC_FILES: Final = (
    *("mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected", "sram_ecc_uncorrected"),
    *("mem_ecc_corrected", "sram_ecc_corrected"),
)
"""Counts of ECC errors of the user guide, and two of release-notes/components/runtime.rst (Neuron
Driver 2.30.2).
"""
MODES: Final = {
    "connected_devices": 0o444,
    "core_count": 0o444,
    "info/notify_delay": 0o444,
    "reset": 0o600,
}
"""Modes of a device's files, where not 0644; notify_delay is read-only: notifications stay off."""

_ZERO_TEXT: Final = "0\n"
_COUNTER_FILES: Final = ("total", "present")
_MEMORY_COUNTER_FILES: Final = (*_COUNTER_FILES, "peak")
_POWER_MANAGEMENT: Final = {
    "async": "disabled",
    "control": "auto",
    "runtime_active_kids": "0",
    "runtime_active_time": "0",
    "runtime_enabled": "disabled",
    "runtime_status": "unsupported",
    "runtime_suspended_time": "0",
    "runtime_usage": "0",
}
"""Files of the kernel's power management: Documentation/ABI/testing/sysfs-devices-power."""
_NO_UTILIZATION: Final = "POWER_STATUS_NO_DATA,0,0.00,0.00,0.00\n"
"""Text of stats/power/utilization without samples: power is not estimated."""
_ARCHITECTURES: Final = {
    "inferentia1": ("v1", "Inf1", "Inferentia"),
    "inferentia2": ("v3", "Inf2", "Inferentia2"),
    "trainium1": ("v2", "Trn1", "Trainium1"),
    "trainium2": ("v3", "Trn2", "Trainium2"),
    "trainium3": ("v4", "Trn3", "Trainium3"),
}
"""Suffix of arch_type, instance_type and device_name of each chip's devices."""


def device_folder(device: int) -> str:
    """The folder of a device, below `ROOT`."""
    return f"neuron{device}"


def core_folder(device: int, core: int) -> str:
    """The folder of a physical core, below `ROOT`."""
    return f"{device_folder(device)}/neuron_core{core}"


def device_files(model: InstanceModel, device: InstanceDevice) -> dict[str, str]:
    """Each file of a device, by its path below `ROOT`, with its text while nothing has run."""
    top = device_folder(device.index)
    suffix, instance_type, device_name = _ARCHITECTURES[model.chip]
    connected_numbers = ", ".join(map(str, device.connected))
    cores = device.cores * model.lnc
    files = {
        f"{top}/uevent": f"MAJOR=0\nMINOR=0\nDEVNAME=neuron{device.index}\n",
        f"{top}/connected_devices": f"{connected_numbers}\n",
        f"{top}/core_count": f"{cores}\n",
        f"{top}/reset": _ZERO_TEXT,
        **{f"{top}/power/{name}": f"{text}\n" for name, text in _POWER_MANAGEMENT.items()},
        f"{top}/info/notify_delay": "-1\n",
        f"{top}/info/serial_number": f"{device.serial_number}\n",
        f"{top}/info/architecture/arch_type": f"ND{suffix}\n",
        f"{top}/info/architecture/device_name": f"{device_name}\n",
        f"{top}/info/architecture/instance_type": f"{instance_type}\n",
        **{f"{top}/stats/hardware/{name}": _ZERO_TEXT for name in ECC_FILES},
        f"{top}/stats/power/utilization": _NO_UTILIZATION,
    }
    for name in _HOST_MEMORY_COUNTERS:
        files |= _counter(f"{top}/stats/memory_usage/host_mem/{name}", _MEMORY_COUNTER_FILES)
    for core in range(cores):
        files |= _core_files(core_folder(device.index, core), model.generation)
    return files


def _core_files(top: str, generation: int) -> dict[str, str]:
    memory = f"{top}/stats/memory_usage"
    files = {f"{top}/info/architecture/arch_type": f"NCv{generation}\n"}
    for name in _STATUS_COUNTERS:
        files |= _counter(f"{top}/stats/status/{name}", _COUNTER_FILES)
    for name in ("", *(f"/{name}" for name in _DEVICE_MEMORY_COUNTERS)):
        files |= _counter(f"{memory}/device_mem{name}", _MEMORY_COUNTER_FILES)
    files |= _counter(f"{memory}/host_mem", _MEMORY_COUNTER_FILES)
    return files | {f"{top}/stats/other_info/{name}": _ZERO_TEXT for name in _OTHER_INFO_FILES}


def _counter(folder: str, names: tuple[str, ...]) -> dict[str, str]:
    return {f"{folder}/{name}": _ZERO_TEXT for name in names}


def counter_folders(files: dict[str, str]) -> Iterator[str]:
    """The folders of counters among `files`; a write to a counter's file sets the counter to 0."""
    return (path.removesuffix("/total") for path in files if path.endswith("/total"))
