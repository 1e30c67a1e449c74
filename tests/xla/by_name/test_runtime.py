"""xr's names in a program of one rank; those of ranks are in test_collectives."""

import os

import pytest


def test_a_lone_program_has_one_rank_and_all_devices():
    import torch_xla
    import torch_xla.runtime as xr
    from torch_xla.experimental import pjrt

    assert os.environ["PJRT_DEVICE"] == "NEURON"
    assert xr.device_type() == pjrt.device_type() == "NEURON"
    assert xr.using_pjrt()
    assert pjrt.using_pjrt()
    assert xr.is_bf16_supported()
    assert not xr.is_spmd()
    assert xr.world_size() == xr.process_count() == xr.local_process_count() == 1
    assert xr.global_ordinal() == xr.local_ordinal() == xr.process_index() == xr.host_index() == 0
    count = torch_xla.device_count()
    for devices in (
        xr.addressable_device_count, xr.local_device_count, xr.global_device_count,
        xr.addressable_runtime_device_count, xr.global_runtime_device_count,
    ):  # fmt: skip
        assert devices() == count
    assert xr.xla_device() == torch_xla.device()


def test_ranks_are_those_of_the_launchers_variables():
    import torch_xla.runtime as xr

    os.environ.update(
        RANK="5", LOCAL_RANK="1", WORLD_SIZE="8", LOCAL_WORLD_SIZE="4", GROUP_RANK="1"
    )
    assert (xr.global_ordinal(), xr.local_ordinal(), xr.host_index()) == (5, 1, 1)
    assert (xr.world_size(), xr.local_process_count(), xr.global_device_count()) == (8, 4, 8)
    assert xr.addressable_device_count() == 1
    assert xr.local_device_count() == 4


def test_only_neurons_kind_of_device_is_accepted():
    import torch_xla.runtime as xr

    xr.set_device_type("NEURON")
    assert os.environ["PJRT_DEVICE"] == "NEURON"
    with pytest.raises(ValueError, match="NEURON here, not 'TPU'"):
        xr.set_device_type("TPU")


def test_another_device_in_the_environment_is_said_to_have_no_effect():
    os.environ["PJRT_DEVICE"] = "CPU"
    with pytest.warns(UserWarning, match="PJRT_DEVICE='CPU' has no effect.*NeuronCore"):
        import torch_xla
    assert torch_xla.device().type == "xla"


def test_the_device_is_a_core_whatever_the_variable_says(monkeypatch):
    import torch_xla.runtime as xr

    monkeypatch.setenv("PJRT_DEVICE", "CPU")  # a warning at the import says that it has no effect
    assert xr.device_type() == "NEURON"


def test_a_machine_without_a_number_is_the_first():
    import torch_xla.runtime as xr

    os.environ["GROUP_RANK"] = "first"
    assert xr.host_index() == 0
