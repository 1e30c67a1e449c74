import re

import pytest

from trnsim.instance.model import instance_model
from trnsim.instance.shell import sysfs

PAGE = (
    "neuron0/connected_devices",
    "neuron0/core_count",
    "neuron0/info/architecture/arch_type",
    "neuron0/info/architecture/device_name",
    "neuron0/info/architecture/instance_type",
    "neuron0/info/notify_delay",
    "neuron0/info/serial_number",
    "neuron0/neuron_core0/info/architecture/arch_type",
    "neuron0/neuron_core0/stats/memory_usage/device_mem/collectives/",
    "neuron0/neuron_core0/stats/memory_usage/device_mem/constants/",
    "neuron0/neuron_core0/stats/memory_usage/device_mem/dma_rings/",
    "neuron0/neuron_core0/stats/memory_usage/device_mem/driver_memory/",
    "neuron0/neuron_core0/stats/memory_usage/device_mem/model_code/",
    "neuron0/neuron_core0/stats/memory_usage/device_mem/model_shared_scratchpad/",
    "neuron0/neuron_core0/stats/memory_usage/device_mem/nonshared_scratchpad/",
    "neuron0/neuron_core0/stats/memory_usage/device_mem/notifications/",
    "neuron0/neuron_core0/stats/memory_usage/device_mem/runtime_memory/",
    "neuron0/neuron_core0/stats/memory_usage/device_mem/tensors/",
    "neuron0/neuron_core0/stats/memory_usage/device_mem/uncategorized/",
    "neuron0/neuron_core0/stats/memory_usage/host_mem/",
    "neuron0/neuron_core0/stats/other_info/flop_count",
    "neuron0/neuron_core0/stats/other_info/inference_count",
    "neuron0/neuron_core0/stats/other_info/model_load_count",
    "neuron0/neuron_core0/stats/other_info/nc_time_in_use",
    "neuron0/neuron_core0/stats/other_info/reset_fail_count",
    "neuron0/neuron_core0/stats/other_info/reset_req_count",
    "neuron0/neuron_core0/stats/status/exec_bad_input/",
    "neuron0/neuron_core0/stats/status/failure/",
    "neuron0/neuron_core0/stats/status/generic_error/",
    "neuron0/neuron_core0/stats/status/hw_error/",
    "neuron0/neuron_core0/stats/status/infer_completed_with_error/",
    "neuron0/neuron_core0/stats/status/infer_completed_with_num_error/",
    "neuron0/neuron_core0/stats/status/infer_failed_to_queue/",
    "neuron0/neuron_core0/stats/status/invalid_error/",
    "neuron0/neuron_core0/stats/status/oob_error/",
    "neuron0/neuron_core0/stats/status/resource_error/",
    "neuron0/neuron_core0/stats/status/resource_nc_error/",
    "neuron0/neuron_core0/stats/status/success/",
    "neuron0/neuron_core0/stats/status/timeout/",
    "neuron0/neuron_core0/stats/status/unsupported_neff_version/",
    "neuron0/power/async",
    "neuron0/power/control",
    "neuron0/power/runtime_active_kids",
    "neuron0/power/runtime_active_time",
    "neuron0/reset",
    "neuron0/stats/hardware/mem_ecc_corrected",  # release-notes/components/runtime.rst, 2.30.2
    "neuron0/stats/hardware/mem_ecc_repairable_uncorrected",
    "neuron0/stats/hardware/mem_ecc_uncorrected",
    "neuron0/stats/hardware/sram_ecc_corrected",  # likewise
    "neuron0/stats/hardware/sram_ecc_uncorrected",
    "neuron0/stats/memory_usage/host_mem/application_memory/",
    "neuron0/stats/memory_usage/host_mem/constants/",
    "neuron0/stats/memory_usage/host_mem/dma_buffers/",
    "neuron0/stats/memory_usage/host_mem/dma_rings/",
    "neuron0/stats/memory_usage/host_mem/driver_memory/",
    "neuron0/stats/memory_usage/host_mem/notifications/",
    "neuron0/stats/memory_usage/host_mem/tensors/",
    "neuron0/stats/memory_usage/host_mem/uncategorized/",
    "neuron0/stats/power/utilization",
    "neuron0/uevent",
)
"""What the sysfs page draws, for one core, but `subsystem`, a link; a counter ends with a slash."""


def files(name, lnc=None, device=0):
    model = instance_model(name, lnc)
    return sysfs.device_files(model, model.devices[device])


def drawn(found):
    """The files of the first core and of the device, counters as one entry each."""
    first = (path for path in found if not re.search(r"neuron_core[1-9]", path))
    return sorted({re.sub(r"/(total|present|peak)$", "/", path) for path in first})


def test_names_and_levels_are_those_of_the_page():
    own = {  # of the kernel's power management, which the page leaves open with "..."
        f"neuron0/power/runtime_{name}" for name in ("enabled", "status", "suspended_time", "usage")
    }
    # Memory in use is a counter too: "This directory contains memory usage statistics for both
    # device and host, represented as counters."
    whole = "neuron0/neuron_core0/stats/memory_usage/device_mem/"
    assert set(drawn(files("trn1.2xlarge"))) - own - {whole} == set(PAGE)


def test_a_counter_has_total_and_present_and_memory_peak_too():
    found = files("trn1.2xlarge")
    core = "neuron0/neuron_core1/stats"
    assert {path for path in found if path.startswith(f"{core}/status/success/")} == {
        f"{core}/status/success/{name}" for name in ("total", "present")
    }
    for folder in ("device_mem", "device_mem/tensors", "host_mem"):
        for name in ("total", "present", "peak"):
            assert found[f"{core}/memory_usage/{folder}/{name}"] == "0\n"
    assert found["neuron0/stats/memory_usage/host_mem/tensors/peak"] == "0\n"


@pytest.mark.parametrize(
    ("name", "lnc", "cores", "types"),
    [
        ("inf1.xlarge", None, 4, ("NDv1", "NCv1", "Inf1", "Inferentia")),
        ("inf2.48xlarge", None, 2, ("NDv3", "NCv2", "Inf2", "Inferentia2")),
        ("trn1.32xlarge", None, 2, ("NDv2", "NCv2", "Trn1", "Trainium1")),
        ("trn2.48xlarge", 1, 8, ("NDv3", "NCv3", "Trn2", "Trainium2")),
        ("trn2.48xlarge", 2, 8, ("NDv3", "NCv3", "Trn2", "Trainium2")),
        ("Trn3 Gen1 UltraServer", None, 8, ("NDv4", "NCv4", "Trn3", "Trainium3")),
    ],
)
def test_architectures_and_physical_cores_are_the_drivers(name, lnc, cores, types):
    found = files(name, lnc)
    assert found["neuron0/core_count"] == f"{cores}\n"
    assert {path.split("/")[1] for path in found if "/neuron_core" in path} == {
        f"neuron_core{number}" for number in range(cores)
    }
    info = "info/architecture"
    assert types == tuple(
        found[f"neuron0/{path}"].strip()
        for path in (
            f"{info}/arch_type",
            f"neuron_core0/{info}/arch_type",
            f"{info}/instance_type",
            f"{info}/device_name",
        )
    )


def test_connected_devices_are_those_of_neuron_ls():
    """neuron-ls.rst: on trn2.48xlarge device 0 is connected to 12, 3, 4, 1."""
    assert files("trn2.48xlarge")["neuron0/connected_devices"] == "12, 3, 4, 1\n"
    assert files("trn1.2xlarge")["neuron0/connected_devices"] == "\n"


def test_a_serial_number_is_the_devices_own_and_the_same_every_time():
    found = [files("trn2.48xlarge", device=number) for number in range(16)]
    serial = [one[f"neuron{number}/info/serial_number"] for number, one in enumerate(found)]
    assert len(set(serial)) == 16
    assert all(re.fullmatch(r"[0-9a-f]{16}\n", one) for one in serial)
    assert serial[0] == files("trn2.48xlarge")["neuron0/info/serial_number"]


def test_no_power_is_claimed():
    assert files("trn1.2xlarge")["neuron0/stats/power/utilization"].startswith(
        "POWER_STATUS_NO_DATA,"
    )


def test_every_counter_has_a_folder_and_every_mode_a_file():
    found = files("trn1.2xlarge")
    folders = list(sysfs.counter_folders(found))
    assert f"{sysfs.core_folder(0, 1)}/stats/status/success" in folders
    # 8 of the host's memory, and of each core 14 statuses and 13 of memory
    assert len(folders) == len(set(folders)) == 8 + 2 * (14 + 13)
    assert all(f"neuron0/{name}" in found for name in sysfs.MODES)
