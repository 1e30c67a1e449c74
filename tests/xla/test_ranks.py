"""Ranks: the variables of AWS's runtime by those of torchrun, and the process group "xla"."""

import os

import pytest
import torch
import torch.distributed as dist

from trnsim.device.loopback import free_port
from trnsim.errors import BadInput
from trnsim.xla import ranks

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none", "MASTER_ADDR": "10.0.0.1", "RANK": "5", "WORLD_SIZE": "8",
    "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4",
}  # fmt: skip


def test_torchruns_variables_become_those_of_the_runtime():
    environment = dict(TORCHRUN)
    ranks.map_launcher(environment)
    assert environment == TORCHRUN | {
        "NEURON_RT_ROOT_COMM_ID": "10.0.0.1:62182", "NEURON_PJRT_WORLD_SIZE": "8",
        "PJRT_LOCAL_PROCESS_COUNT": "4", "NEURON_RT_VISIBLE_CORES": "1",
        "NEURON_PJRT_PROCESS_INDEX": "5", "PJRT_LOCAL_PROCESS_RANK": "1",
    }  # fmt: skip


def test_what_the_program_sets_stays_and_other_processes_are_left_alone():
    own = {"NEURON_RT_ROOT_COMM_ID": "a:1", "NEURON_PJRT_PROCESSES_NUM_DEVICES": "1,1"}
    environment = TORCHRUN | own
    ranks.map_launcher(environment)
    assert own.items() <= environment.items()
    assert "NEURON_PJRT_WORLD_SIZE" not in environment
    for alone in ({}, {"RANK": "1"}, TORCHRUN | {"XLA_USE_SPMD": "1"}):
        environment = dict(alone)
        ranks.map_launcher(environment)
        assert environment == alone


@pytest.mark.parametrize(
    ("address", "root"), [("::1:2", "[::1:2]"), ("[::1]", "[::1]"), ("a", "a")]
)
def test_addresses_of_ipv6_stand_in_brackets(address, root):
    environment = TORCHRUN | {"MASTER_ADDR": address}
    ranks.map_launcher(environment)
    assert environment["NEURON_RT_ROOT_COMM_ID"] == f"{root}:62182"


@pytest.mark.parametrize(
    ("visible", "rank", "world", "own"),
    [
        (None, 3, 4, "3"),
        ("", 0, 1, "0"),
        ("4-7", 1, 4, "5"),
        ("0-3", 1, 4, "1"),
        ("8,9", 1, 2, "9"),
        ("6", 1, 2, "6"),
    ],
)
def test_a_rank_has_its_own_of_the_cores(visible, rank, world, own):
    environment = {} if visible is None else {"NEURON_RT_VISIBLE_CORES": visible}
    assert ranks.own_cores(environment, rank, world) == own


def test_other_numbers_of_cores_than_ranks_are_refused():
    with pytest.raises(BadInput, match=r"(?s)'0-3' has 4 cores for 1 rank.*=0, or start 4 ranks"):
        ranks.own_cores({"NEURON_RT_VISIBLE_CORES": "0-3"}, 0, 1)
    with pytest.raises(BadInput, match=r"(?s)'0-1' has 2 cores for 3 ranks.*=0-2"):
        ranks.own_cores({"NEURON_RT_VISIBLE_CORES": "0-1"}, 0, 3)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"init_method": "xla://"}, {"init_method": "pjrt://"}])
def test_a_group_of_one_rank_begins_without_a_launcher(options):
    import torch_xla.distributed.xla_backend
    import torch_xla.runtime as xr

    dist.init_process_group("xla", **options)
    assert dist.get_backend() == "xla"
    assert (dist.get_rank(), xr.world_size()) == (0, 1)
    tensor = torch.ones(2, device="xla")
    dist.all_reduce(tensor)
    host = torch.ones(1)
    dist.all_reduce(host)
    assert tensor.tolist() == [1.0, 1.0]
    objects = [None]
    dist.all_gather_object(objects, "x")
    assert objects == ["x"]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1).to("xla"))
    model(torch.ones(1, 2, device="xla")).sum().backward()
    assert model.module.weight.grad.tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("options", [{}, {"init_method": "xla://"}, {"init_method": "pjrt://"}])
def test_a_group_begins_by_torchruns_variables(options):
    import torch_xla.distributed.xla_backend

    os.environ.update(
        RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port())
    )
    dist.init_process_group("xla", **options)
    assert dist.get_world_size() == 1


def test_a_rank_without_an_address_is_named():
    import torch_xla.experimental.pjrt_backend

    os.environ.update(RANK="0", WORLD_SIZE="2")
    with pytest.raises(BadInput, match=r"(?s)RANK=0, but no MASTER_ADDR.*fix: start .* torchrun"):
        dist.init_process_group("xla", init_method="xla://")


def test_the_group_that_a_collective_began_is_the_programs():
    import torch_xla

    whole = ranks.group()
    dist.init_process_group("xla")
    assert dist.group.WORLD is whole
    with pytest.raises(ValueError, match="twice"):
        dist.init_process_group("xla")


def test_a_group_that_none_began_is_left_without_one():
    ranks.leave()
    import torch_xla

    ranks.group()
    ranks.leave()
    assert not dist.is_initialized()
