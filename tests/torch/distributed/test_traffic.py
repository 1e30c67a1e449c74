"""What parallel programs of eight processes exchange, and the time of it at three kinds of places.

The model has two linear layers, 8 to 16 and 16 to 4, in float32, and trains four steps of AdamW.
"""

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from groups import together
from parallel_ways import data_parallel, expert_parallel, fully_sharded, tensor_parallel

from trnsim.device.rank_figures import figures
from trnsim.fabric.fabric import fabric
from trnsim.fabric.floors import Floor
from trnsim.launch.world import world
from trnsim.torch.call_recording import recording

RANKS, STEPS, F32 = 8, 4, 4
WAYS = (data_parallel, fully_sharded, tensor_parallel, expert_parallel)
PARAMETERS = (8 * 16 + 16) + (16 * 4 + 4)
# FSDP pads the first dimension, here of 4 rows, to a multiple of the ranks.
SHARDED = {F32 * (8 * 16 + 16), F32 * (16 * 8 + 8)}
PLACES = {
    "one chip": fabric("trn2.48xlarge", lnc=1, ranks_per_node=8),
    "one node": fabric("trn2.48xlarge", lnc=2, ranks_per_node=8),
    "two nodes": fabric("trn2.48xlarge", nodes=2, lnc=2, ranks_per_node=4),
}


def figures_of_every_way(rank):
    found = {}
    for way in WAYS:
        with recording() as written:
            way(rank)
        found[way.__name__] = figures(written, rank, "trn2")
    return found


@pytest.fixture(scope="module")
def ranks():
    return together(figures_of_every_way, RANKS)


def rows(ranks, way, kind):
    """Bytes and calls of the collectives of one kind."""
    found = world(PLACES["one node"], [one[way] for one in ranks])
    assert {one.groups for one in found.collectives} == {(tuple(range(RANKS)),)}
    return {one.nbytes: one.calls for one in found.collectives if one.kind == kind}


@pytest.mark.slow
def test_data_parallelism_sums_every_gradient_once_a_step(ranks):
    assert rows(ranks, "data_parallel", "allreduce") == {F32 * PARAMETERS: STEPS}


@pytest.mark.slow
def test_sharding_gathers_weights_twice_and_scatters_gradients_once(ranks):
    gathered = dict.fromkeys(SHARDED, 2 * STEPS)
    assert rows(ranks, "fully_sharded", "allgather_base") == gathered
    scattered = dict.fromkeys(SHARDED, STEPS)
    assert rows(ranks, "fully_sharded", "reduce_scatter_base") == scattered


@pytest.mark.slow
def test_a_column_and_a_row_layer_sum_their_output_once(ranks):
    assert rows(ranks, "tensor_parallel", "allreduce") == {F32 * 8 * 4: STEPS}


@pytest.mark.slow
def test_rows_go_to_their_experts_and_back_and_so_do_gradients(ranks):
    # Counts, rows and their experts go there, rows come back; of what is learnt gradients return.
    exchanged = rows(ranks, "expert_parallel", "alltoall_base")
    assert sum(exchanged.values()) == STEPS * (4 + 1)
    chosen = [one["expert_parallel"]["collectives"] for one in ranks]
    sizes = [one["nbytes"] for kinds in chosen for one in kinds if one["kind"] == "alltoall_base"]
    # Each rank has one row of 8, which some rank receives: so much at least, in each direction.
    assert sum(row[1] for row in sizes) >= RANKS * 8 * F32


CHIPS = {"one chip": 1, "one node": 2, "two nodes": 2}


def messages(kind, algorithm, chips):
    """How many whole messages leave ranks for others.

    To gather, each of 8 gets the 7/8 that it lacks. To scatter, a chip reduces what its own ranks
    have in its HBM, and sends each of the others their part of the message.
    """
    gathered, scattered = RANKS - 1, chips - 1
    if algorithm == "single-step mesh":
        return RANKS * (RANKS - 1)
    return {
        "allreduce": gathered + scattered,
        "allgather": gathered,
        "allgather_base": gathered,
        "reduce_scatter_base": scattered,
        "alltoall_base": gathered,
    }[kind]


@pytest.mark.slow
@pytest.mark.parametrize("way", [way.__name__ for way in WAYS])
def test_one_chip_one_node_and_two_nodes_take_three_times(ranks, way):
    worlds = {name: world(on, [one[way] for one in ranks]) for name, on in PLACES.items()}
    inside_s, started_s = (
        {
            name: sum(one.calls * one.floors.time_s(floor) for one in found.collectives)
            for name, found in worlds.items()
        }
        for floor in (Floor.PROGRAM, Floor.HOST)
    )
    assert inside_s["one chip"] < inside_s["one node"] < inside_s["two nodes"], inside_s
    # So few bytes are hidden by the host's start, which grows with instances alone.
    assert started_s["one chip"] == started_s["one node"] < started_s["two nodes"], started_s
    collectives = [one for found in worlds.values() for one in found.collectives]
    assert all(one.floor_text.startswith("started by the host") for one in collectives)
    for name, found in worlds.items():
        carriers = {resource for resource, _, _ in found.links}
        # What explains the difference: links between chips, adapters between instances.
        assert any("to chip" in one for one in carriers) == (name == "one node"), name
        assert any("EFA" in one for one in carriers) == (name == "two nodes"), name
        for one in found.collectives:
            if one.kind not in ("broadcast", "scatter"):
                number = messages(one.kind, one.choice.algorithm, CHIPS[name])
                assert one.moved_bytes == pytest.approx(one.calls * number * one.nbytes), one


def hidden_by_compute(rank):
    """Figures of a program that computes while it sums, and of one that waits first."""
    found = {}
    for is_async in (True, False):
        values, weights = torch.ones(256, 256).to("neuron"), torch.ones(256, 256).to("neuron")
        with recording() as written:
            work = torch.distributed.all_reduce(values, async_op=is_async)
            products = weights
            for _ in range(4):
                products = products @ weights
            if work is not None:
                work.wait()
            values.add_(products)
        found["hidden" if is_async else "exposed"] = figures(written, rank, "trn2")
    return found


def test_what_is_computed_before_the_wait_hides_the_exchange():
    given = together(hidden_by_compute, 2)
    on = fabric("trn2.48xlarge", lnc=2, ranks_per_node=2)
    worlds = {name: world(on, [one[name] for one in given]) for name in ("hidden", "exposed")}
    for rank in range(2):
        one, other = (worlds[name].ranks[rank] for name in ("hidden", "exposed"))
        assert one.step.exchanged_s == other.step.exchanged_s > 0
        assert other.step.exposed_s == pytest.approx(other.step.exchanged_s)
        hidden_s = one.step.exchanged_s - one.step.exposed_s
        assert hidden_s > 0
        # What is hidden is what the step is shorter by.
        assert other.step.total_s - one.step.total_s == pytest.approx(hidden_s)
