"""Processes for each core; what they exchange is in test_collectives."""

import os

import pytest
import torch

from trnsim.errors import BadInput


def test_one_process_is_this_one():
    import torch_xla
    import torch_xla.distributed.xla_multiprocessing as xmp

    seen = []
    xmp.spawn(lambda index, word: seen.append((index, word, os.getpid())), args=("a",), nprocs=1)
    os.environ["NEURONCORE_NUM_DEVICES"] = "2"
    torch_xla.launch(seen.append, debug_single_process=True)
    del os.environ["NEURONCORE_NUM_DEVICES"]
    xmp.spawn(seen.append)
    assert seen == [(0, "a", os.getpid()), 0, 0]


@pytest.mark.parametrize("count", [0, 2, 32])
def test_other_numbers_of_processes_are_refused(count):
    import torch_xla.distributed.xla_multiprocessing as xmp

    with pytest.raises(
        ValueError, match=rf"Unsupported nprocs \({count}\); legal: None and 1"
    ) as refused:
        xmp.spawn(print, nprocs=count)
    assert refused.value.line.file == __file__
    with pytest.raises(ValueError, match=r"xmp\.spawn of 'f'; legal: a function"):
        xmp.spawn("f")


def test_three_ranks_of_two_cores_are_refused_before_they_start():
    import torch_xla

    os.environ.update(NEURONCORE_NUM_DEVICES="3", NEURON_RT_VISIBLE_CORES="4-5")
    with pytest.raises(BadInput, match=r"'4-5' has 2 cores for 3 ranks of this machine"):
        torch_xla.launch(print)


@pytest.mark.parametrize("value", ["0", "two", "-1", ""])
def test_a_number_of_processes_that_is_none_is_refused(value):
    import torch_xla

    os.environ["NEURONCORE_NUM_DEVICES"] = value
    with pytest.raises(BadInput, match=r"NEURONCORE_NUM_DEVICES='.*' is no number of processes"):
        torch_xla.launch(print)


def test_in_a_process_of_torchrun_a_launch_is_a_call():
    import torch_xla

    os.environ.update(TORCHELASTIC_RUN_ID="none", LOCAL_RANK="3", NEURONCORE_NUM_DEVICES="2")
    seen = []
    torch_xla.launch(lambda *args: seen.append(args), args=(1,))
    assert seen == [(3, 1)]


def test_a_rank_that_fails_ends_the_program():
    import torch_xla.distributed.xla_multiprocessing as xmp

    os.environ["NEURONCORE_NUM_DEVICES"] = "2"

    def fail(index):
        raise ValueError(f"rank {index} fails")

    with pytest.raises(torch.multiprocessing.ProcessRaisedException, match="fails"):
        xmp.spawn(fail, start_method="fork")


def test_wrappers_of_forked_programs_wrap():
    import torch_xla.distributed.xla_multiprocessing as xmp

    model = torch.nn.Linear(2, 2)
    assert xmp.MpModelWrapper(model).to("xla") is model
    assert model.weight.is_xla
    assert xmp.MpSerialExecutor().run(lambda: 3) == 3
