"""Released torchtitan finds the device, its chip and its memory."""

import importlib

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
pytest.importorskip("torchtitan", reason="make clients installs torchtitan")

pytestmark = pytest.mark.filterwarnings("ignore")

CORE_PEAK_FLOPS = 79e12 * 2  # torchtitan's own figure for a logical core of trn2


def module(name):
    return importlib.import_module(f"torchtitan.{name}")


def test_the_device_is_detected():
    utils = module("tools.utils")
    assert utils.device_type == "neuron"
    assert utils.device_module is torch.neuron


def test_the_peak_is_that_of_the_chip():
    utils = module("tools.utils")
    name = utils.device_module.get_device_name()
    assert utils.get_peak_flops(name) == CORE_PEAK_FLOPS


def test_the_memory_monitor_reads_the_devices_memory():
    monitor = module("components.metrics").build_device_memory_monitor()
    held = torch.ones(1 << 20, device="neuron")
    stats = monitor.get_peak_stats()
    assert monitor.device_capacity == torch.neuron.get_device_properties(0).total_memory
    assert stats.max_active_gib >= held.nbytes / 1024**3
