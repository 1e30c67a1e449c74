"""`trnsim.run(..., ranks=N)`: inputs, places, times, links, errors."""

import gc
import signal
import threading
from multiprocessing import active_children
from types import SimpleNamespace

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from greenlet import greenlet
from hypothesis import given, settings
from hypothesis import strategies as st

import trnsim
from trnsim.errors import BadInput, Deadlock, IllegalInstruction
from trnsim.program import has_current_core
from trnsim.program.ranks import Ranks
from trnsim.runner import collecting_worlds, on_ranks
from trnsim.runs import collecting
from trnsim.worlds import World

X = np.ones((8, 8), np.float32)


@nki.jit
def reduced(x, groups):
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], groups, nl.add)
    nisa.dma_copy(dst=out, src=dst)
    return out


def whole(ranks):
    return ncc.ReplicaGroup([list(range(ranks))])


def test_inputs_are_tuples_dictionaries_a_function_or_the_same_for_all():
    group = whole(4)
    tuples = [(X * rank, group) for rank in range(4)]
    for inputs in (
        tuples,
        lambda rank: (X * rank, group),
        lambda rank: {"x": X * rank, "groups": group},
    ):
        world = trnsim.run(reduced, ranks=4, inputs=inputs)
        assert isinstance(world, World)
        assert all((out == 6).all() for out in world.outputs)
    same = trnsim.run(reduced, X, group, ranks=4)
    assert (same.runs[3].outputs == 4).all()
    by_name = trnsim.run(reduced, ranks=4, inputs=[(X,)] * 4, groups=group)
    assert (by_name.outputs[0] == 4).all()


def test_a_world_of_one_is_a_world():
    world = trnsim.run(reduced, X, whole(1), ranks=1)
    assert len(world.runs) == 1
    assert (world.outputs[0] == 1).all()
    assert world.links == ()
    assert world.skew_s == (0.0,)


def test_a_parameter_of_the_kernel_with_such_a_name_goes_through_kernel_kwargs():
    @nki.jit
    def kernel(x, ranks, inputs):
        assert (ranks, inputs) == (7, 8)
        return x

    trnsim.run(kernel, X, kernel_kwargs={"ranks": 7, "inputs": 8})
    trnsim.run(kernel, X, ranks=2, kernel_kwargs={"ranks": 7, "inputs": 8})


def test_without_ranks_inputs_are_the_kernels():
    @nki.jit
    def kernel(x, inputs, instance):
        assert (inputs, instance) == (1, 2)
        return x

    trnsim.run(kernel, X, inputs=1, instance=2)


BAD = {
    "^3 ranks; legal: 1, 2, 4, 8, 16 and multiples of 32": {"ranks": 3},
    "^0 ranks": {"ranks": 0},
    "128 ranks on trn2.3xlarge, which has": {"ranks": 128, "instance": "trn2.3xlarge"},
    "instance trn1.2xlarge has trainium1; target trn2": {"ranks": 2, "instance": "trn1.2xlarge"},
    "lnc=2 for reduced, whose grid has 1": {"ranks": 2, "lnc": 2},
    "lnc='1' for reduced, whose grid has 1": {"ranks": 2, "lnc": "1"},
    "ranks='2'; legal: a whole number": {"ranks": "2"},
    "ranks=True; legal: a whole number up to 1,048,576": {"ranks": True},
    "lnc=True for reduced, whose grid has 1; legal: lnc=1": {"ranks": 1, "lnc": True},
    "lnc=1.0 for reduced, whose grid has 1; legal: lnc=1": {"ranks": 1, "lnc": 1.0},
    "ranks=2.0; legal: a whole number up to 1,048,576": {"ranks": 2.0},
    "ranks=1180591620717411303424; legal: a whole number up to 1,048,576": {"ranks": 1 << 70},
    "ranks=1073741824; legal": {"ranks": 1 << 30},
    "positional arguments and inputs= together": {"ranks": 2, "inputs": [(X,)] * 2},
}


@pytest.mark.parametrize("message", BAD)
def test_what_a_world_refuses(message):
    with pytest.raises(BadInput, match=message):
        trnsim.run(reduced, X, whole(2), **BAD[message])


def test_inputs_for_another_number_of_ranks_or_of_another_kind():
    with pytest.raises(BadInput, match="inputs for 3 ranks; legal: a tuple for each of 4"):
        trnsim.run(reduced, ranks=4, inputs=[(X, whole(4))] * 3)
    with pytest.raises(BadInput, match="inputs has a ndarray for a rank; legal: a tuple"):
        trnsim.run(reduced, ranks=2, inputs=[X, X])
    with pytest.raises(BadInput, match="inputs has a NoneType for a rank; legal: a tuple"):
        trnsim.run(reduced, ranks=2, inputs=lambda _: None)
    with pytest.raises(BadInput, match="inputs is int; legal: a tuple for each of 2 ranks"):
        trnsim.run(reduced, ranks=2, inputs=5)


def test_ranks_that_issue_other_collectives_are_named_within_the_run():
    @nki.jit
    def kernel(x, rows):
        src = nl.ndarray((rows, 4), dtype=x.dtype, buffer=nl.shared_hbm, name="src")
        dst = nl.ndarray((rows, 4), dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
        nisa.dma_copy(dst=src, src=x[:rows, :4])
        if rows:
            ncc.all_reduce([src], [dst], whole(4), nl.add)
        return x

    for lnc in (1, 2):
        with pytest.raises(Deadlock) as caught:
            trnsim.run(kernel[lnc], ranks=4, inputs=lambda rank: (X, 2 if rank == 1 else 4))
        text = caught.value.reason
        assert "ranks 0, 2-3 wait in all_reduce(op=add) of float32 [4, 4] to [4, 4] in" in text
        assert "rank 1 waits in all_reduce(op=add) of float32 [2, 4]" in text


@nki.jit
def leaving(x, leaves):
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
    nisa.dma_copy(dst=src, src=x)
    if leaves == "core" and nl.program_id(0):
        return x
    if leaves != "rank":
        ncc.all_reduce([src], [dst], whole(2), nl.add)
    return x


@pytest.mark.parametrize("lnc", [1, 2])
def test_a_rank_that_has_ended_is_named(lnc):
    with pytest.raises(Deadlock, match=r"rank 1 waits in all_reduce.*rank 0 has ended"):
        trnsim.run(leaving[lnc], ranks=2, inputs=[(X, "rank"), (X, "")])


def test_a_core_that_leaves_its_rank_is_missed():
    with pytest.raises(Deadlock, match=r"ranks 0-1 wait in all_reduce") as caught:
        trnsim.run(leaving[2], ranks=2, inputs=[(X, "core"), (X, "")])
    assert "on every core of a rank" in caught.value.fix


def test_links_have_what_passed_and_the_time_it_takes():
    x = np.ones((128, 512), np.float32)
    world = trnsim.run(reduced, x, whole(16), ranks=16, instance="trn2.48xlarge")
    links = [one for one in world.links if one.name.startswith("chip")]
    assert {one.name for one in links} == {"chip 0 to chip 1", "chip 1 to chip 0"}
    capacity = dict(zip(world.fabric.names, world.fabric.capacity, strict=True))
    for one in world.links:
        assert one.busy_s == pytest.approx(one.nbytes / capacity[one.name])
    twice = trnsim.run(reduced, x, ncc.ReplicaGroup([range(8), range(8, 16)]), ranks=16)
    assert not [one for one in twice.links if one.name.startswith("chip 0 to chip 1")]


def test_the_smallest_instance_that_has_the_ranks_is_taken():
    assert trnsim.run(reduced, X, whole(2), ranks=2).fabric.instance.name == "trn2.3xlarge"
    assert trnsim.run(reduced, X, whole(16), ranks=16).fabric.instance.name == "trn2.48xlarge"


def test_a_report_has_a_track_a_rank_the_links_and_who_waited(tmp_path):
    world = trnsim.run(reduced, X, whole(16), ranks=16, instance="trn2.48xlarge")
    path = world.report(tmp_path / "new" / "report.html")
    text = path.read_text()
    assert "reduced: 16 ranks of LNC=1 on trn2.48xlarge" in text
    assert text.count('class="exposed" x=') == 16
    assert 'aria-label="rank 15"' in text
    assert "chip 0 to chip 1" in text
    assert "waited for others" in text


def test_a_trace_has_all_ranks_and_links(tmp_path):
    world = trnsim.run(reduced, X, whole(16), ranks=16, instance="trn2.48xlarge")
    content = world.trace(tmp_path / "new" / "world.perfetto-trace").read_bytes()
    for name in ("reduced: 16 ranks of LNC=1 on trn2.48xlarge, rank 15", "chip 0 to chip 1"):
        assert name.encode() in content


def test_the_facts_of_an_estimate_are_also_those_of_the_links():
    def named(run):
        return {name for facts in run.timeline.facts().values() for name, _ in facts}

    run = trnsim.run(reduced, X, whole(4), ranks=4).runs[0]
    core = set(run.timeline.program.core.facts())
    moving = {"rank_bytes_per_s", "hbm_bytes_per_s", "link_bytes_per_s", "start_s", "hop_s"}
    assert named(run) == core | {f"collective_{name}" for name in moving}
    assert sum(run.summary.facts.values()) == len(core) + len(moving)

    @nki.jit
    def alone(x):
        return x

    assert named(trnsim.run(alone, X, ranks=4).runs[0]) == core


def test_worlds_are_collected_and_the_run_of_rank_0_among_others():
    with collecting() as runs, collecting_worlds() as worlds:
        world = trnsim.run(reduced, X, whole(2), ranks=2)
    assert worlds == [world]
    assert runs == [world.runs[0]]


def test_a_call_may_be_one_on_ranks():
    with on_ranks(4, "trn2.48xlarge"), collecting_worlds() as worlds:
        assert (reduced(X, whole(4)) == 4).all()
    assert worlds[0].fabric.instance.name == "trn2.48xlarge"
    with on_ranks(None, None), pytest.raises(IllegalInstruction):
        reduced(X, whole(4))


@nki.jit
def steps(x, program):
    """Collectives and computations one after another, each from what the one before left."""
    rows, width = x.shape
    make = lambda shape, name: nl.ndarray(shape, dtype=x.dtype, buffer=nl.shared_hbm, name=name)  # noqa: E731
    now = make(x.shape, "start")
    out = make(x.shape, "out")
    nisa.dma_copy(dst=now, src=x)
    for number, (kind, groups) in enumerate(program()):
        group, size = ncc.ReplicaGroup(groups), len(groups[0])
        after = make(x.shape, f"after{number}")
        if kind == "all_reduce":
            ncc.all_reduce([now], [after], group, nl.maximum)
        elif kind == "all_to_all":
            ncc.all_to_all([now], [after], group, 0)
        elif kind == "permute":
            ncc.collective_permute_implicit([[now]], [[after]], group)
        elif kind == "both":
            part = make((rows // size, width), f"part{number}")
            ncc.reduce_scatter([now], [part], group, 0, nl.add)
            ncc.all_gather([part], [after], group, 0)
        else:
            tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=tile, src=now)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)
            nisa.dma_copy(dst=after, src=tile)
        now = after
    nisa.dma_copy(dst=out, src=now)
    return out


def reference(arrays, program):
    """What `steps` leaves on each rank."""
    now = [array.astype(np.float64) for array in arrays]
    for kind, groups in program:
        after = list(now)
        for group in groups:
            mine, size = [now[rank] for rank in group], len(group)
            parts = [np.split(array, size) for array in mine]
            for place, rank in enumerate(group):
                after[rank] = {
                    "all_reduce": lambda: np.max(mine, axis=0),  # noqa: B023  called at once
                    "all_to_all": lambda: np.concatenate([one[place] for one in parts]),  # noqa: B023
                    "permute": lambda: mine[place - 1],  # noqa: B023
                    "both": lambda: np.sum(mine, axis=0),  # noqa: B023
                    "compute": lambda: now[rank] / 2,  # noqa: B023
                }[kind]()
        now = after
    return now


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["all_reduce", "all_to_all", "permute", "both", "compute"]),
            st.sampled_from([1, 2, 4, 8]).flatmap(
                lambda size: st.permutations(range(8)).map(
                    lambda ranks: [
                        sorted(ranks[at : at + size]) for at in range(0, len(ranks), size)
                    ]
                )
            ),
        ),
        min_size=1,
        max_size=6,
    ),
    st.permutations(range(8)),
    st.sampled_from([1, 2]),
    st.integers(0, 2**31),
)
def test_values_and_times_do_not_depend_on_the_order_in_which_ranks_run(program, order, lnc, seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-9, 9, (8, 3)).astype(np.float32) for _ in range(8)]
    wanted = reference(arrays, program)
    made = Ranks.__init__

    def in_order(self, *args):
        made(self, *args)
        self.order = order

    times = []
    for init in (made, in_order):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Ranks, "__init__", init)
            world = trnsim.run(
                steps[lnc],
                ranks=8,
                inputs=[(array, lambda: program) for array in arrays],
                races="warn",
            )
        times.append([run.total_time_s for run in world.runs])
        for rank, out in enumerate(world.outputs):
            np.testing.assert_array_equal(out, wanted[rank])
    assert times[0] == times[1]


def test_groups_of_one_size_may_lie_differently_on_chips():
    groups = ncc.ReplicaGroup([[0, 1], [2, 4], [3, 5], [6, 7]])
    world = trnsim.run(reduced[2], ranks=8, inputs=lambda rank: (X * rank, groups))
    assert [out[0, 0] for out in world.outputs] == [1, 1, 6, 8, 6, 8, 13, 13]
    assert world.links


@nki.jit
def raising(x, error, log):
    """A collective, after which a rank with an `error` raises it while the others wait."""
    log.append(1)
    try:
        out = reduced(x, whole(4))
        if error is not None:
            error()
        return reduced(out, whole(4))
    finally:
        log.append(-1)


def wrong():
    raise ValueError("wrong")


def interrupted():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize(("error", "kind"), [(wrong, ValueError), (interrupted, KeyboardInterrupt)])
def test_a_rank_that_raises_stops_the_others_and_its_error_stands(values, lnc, error, kind):
    def run(error):
        inputs = [(X, error if rank == 2 else None, log) for rank in range(4)]
        trnsim.run(raising[lnc], ranks=4, inputs=inputs, numerics=values, races="warn")

    logged = []
    log = SimpleNamespace(append=logged.append)  # no list, of which each rank has a copy
    before = threading.active_count(), len(active_children())
    with pytest.raises(kind) as caught:
        run(error)
    if kind is ValueError:
        assert caught.value.__notes__ == ["on rank 2 of 4"]
    assert caught.value.__context__ is None
    assert logged
    assert not sum(logged), "every rank that began has left its kernel"
    assert (threading.active_count(), len(active_children())) == before
    del caught
    gc.collect()
    greenlets = [one for one in gc.get_objects() if issubclass(type(one), greenlet)]
    assert not [one for one in greenlets if one and one.parent]
    assert not has_current_core()
    run(None)


def test_of_several_ranks_that_raise_the_first_error_stands():
    @nki.jit
    def kernel(x, rank):
        if rank % 2:
            raise ValueError(f"rank {rank}")
        return reduced(x, whole(4))

    for values in (True, False):
        with pytest.raises(ValueError, match="rank 1") as caught:
            trnsim.run(kernel, ranks=4, inputs=[(X, rank) for rank in range(4)], numerics=values)
        assert caught.value.__notes__ == ["on rank 1 of 4"]
