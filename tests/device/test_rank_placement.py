import pytest

from trnsim.device import rank_placement
from trnsim.device.device_core import logical_config, visible_cores
from trnsim.device.rank_placement import placed_time, world_fabric
from trnsim.errors import BadInput
from trnsim.fabric.fabric import fabric
from trnsim.fabric.floors import Floor

VARIABLES = (
    *("WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "NEURON_RT_VISIBLE_CORES", "TRNSIM_FAULTS"),
    *("TRNSIM_INSTANCE", "NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_NUM_CORES"),
    *("NEURON_PJRT_PROCESSES_NUM_DEVICES", "NEURON_PJRT_PROCESS_INDEX"),
)


@pytest.fixture
def launched(monkeypatch):
    """A function that sets the variables of a launcher, and none else."""

    def set_variables(**variables):
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        for one in (world_fabric, rank_placement._cached_time, visible_cores, logical_config):
            one.cache_clear()

    yield set_variables
    monkeypatch.undo()
    set_variables()


def inside_s(kind, nbytes, groups):
    """Seconds inside a program, without the host's start."""
    return placed_time(kind, nbytes, groups, "trn2", Floor.PROGRAM).time_s


def test_a_collective_of_an_eager_program_is_started_by_the_host(launched):
    launched(WORLD_SIZE=8, LOCAL_WORLD_SIZE=8, TRNSIM_INSTANCE="trn2.48xlarge")
    found = placed_time("all_reduce", 8, [range(8)], "trn2")
    assert found.floor is Floor.HOST
    assert found.time_s > 10 * inside_s("all_reduce", 8, [range(8)])


def described(found):
    return found.instance.name, found.nodes, found.ranks_per_node, found.first


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"WORLD_SIZE": 8}, ("trn2.48xlarge", 1, 64, 0)),
        ({"WORLD_SIZE": 4}, ("trn2.3xlarge", 1, 4, 0)),
        ({"WORLD_SIZE": 8, "LOCAL_WORLD_SIZE": 8}, ("trn2.48xlarge", 1, 8, 0)),
        ({"WORLD_SIZE": 8, "LOCAL_WORLD_SIZE": 4}, ("trn2.48xlarge", 2, 4, 0)),
        ({"WORLD_SIZE": 8, "LOCAL_WORLD_SIZE": 4, "LOCAL_RANK": 1, "NEURON_RT_VISIBLE_CORES": 9},
         ("trn2.48xlarge", 2, 4, 8)),
        # every process names core 0 as its own, which cannot be: places follow from local ranks
        ({"WORLD_SIZE": 8, "LOCAL_WORLD_SIZE": 4, "LOCAL_RANK": 1, "NEURON_RT_VISIBLE_CORES": 0},
         ("trn2.48xlarge", 2, 4, 0)),
        ({"WORLD_SIZE": 2, "TRNSIM_INSTANCE": "trn2.48xlarge"}, ("trn2.48xlarge", 1, 64, 0)),
        ({"WORLD_SIZE": "many", "LOCAL_WORLD_SIZE": "x"}, ("trn2.3xlarge", 1, 4, 0)),
    ],
)  # fmt: skip
def test_a_launchers_variables_place_the_world(launched, variables, expected):
    launched(**variables)
    assert described(world_fabric("trn2")) == expected


@pytest.mark.parametrize(
    ("cores", "shares", "place"),
    [
        ("20-23", "4,4,4,4", (1, 5, 0)),  # the second rank of two on the instance, from core 16 on
        ("20-23", "4,4", (1, 5, 0)),  # of other processes than ranks
        ("20", "1,1,1,1", (1, 5, 0)),
        ("20-23", "4,4,4,2", (1, 5, 0)),
    ],
)
def test_a_rank_of_several_cores_computes_on_the_first(launched, cores, shares, place):
    launched(
        WORLD_SIZE=4, LOCAL_WORLD_SIZE=2, LOCAL_RANK=1, TRNSIM_INSTANCE="trn2.48xlarge",
        NEURON_RT_VISIBLE_CORES=cores, NEURON_PJRT_PROCESSES_NUM_DEVICES=shares,
        NEURON_PJRT_PROCESS_INDEX=3,
    )  # fmt: skip
    assert world_fabric("trn2").place(3) == place


def test_eight_ranks_on_one_chip_one_node_and_two_nodes_take_three_times(launched):
    ranks, nbytes = [range(8)], 1 << 20
    times_s = []
    for lnc, per_node in ((1, 8), (2, 8), (2, 4)):
        launched(
            WORLD_SIZE=8, LOCAL_WORLD_SIZE=per_node, NEURON_LOGICAL_NC_CONFIG=lnc,
            TRNSIM_INSTANCE="trn2.48xlarge",
        )  # fmt: skip
        found = world_fabric("trn2")
        chips = {found.place(rank)[:2] for rank in range(8)}
        times_s.append((len(chips), inside_s("all_reduce", nbytes, ranks)))
    (one, fast_s), (two, slower_s), (apart, slowest_s) = times_s
    assert (one, two, apart) == (1, 2, 2)
    assert fast_s < slower_s < slowest_s


def test_a_fault_of_a_link_slows_what_takes_it(launched):
    given = {"WORLD_SIZE": 8, "LOCAL_WORLD_SIZE": 8, "TRNSIM_INSTANCE": "trn2.48xlarge"}
    launched(**given)
    whole_s = inside_s("all_reduce", 1 << 24, [range(8)])
    name = "chip 0 to chip 1"
    assert name in {one.name for one in fabric("trn2.48xlarge").topology.links}
    launched(**given, TRNSIM_FAULTS=f"link={name},factor=0.1")
    assert inside_s("all_reduce", 1 << 24, [range(8)]) > whole_s


def test_an_instance_of_another_chip_is_refused(launched):
    launched(WORLD_SIZE=2, TRNSIM_INSTANCE="trn1.32xlarge")
    with pytest.raises(BadInput, match=r"TRNSIM_INSTANCE=trn1\.32xlarge has"):
        world_fabric("trn2")
    assert rank_placement.world_fabric("trn1").instance.name == "trn1.32xlarge"
