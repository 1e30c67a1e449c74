"""all_reduce and reduce_scatter against a reference in numpy."""

import nki.collectives as ncc
import nki.language as nl
import numpy as np
import pytest
from exchanges import DTYPES, exchange, exchanged, groups_of, values
from hypothesis import given, settings
from hypothesis import strategies as st

import trnsim
from trnsim.dtypes import BFLOAT16, FLOAT32
from trnsim.errors import IllegalInstruction
from trnsim.isa.collectives.reduction import reduce_in_order
from trnsim.isa.language.operator_tables import ALU

COUNTS = (1, 2, 4, 8, 16)
OPERATORS = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum}


def bound(arrays, dtype):
    """How far a sum may be off: half a step of the dtype for each rounding, on the sum of sizes."""
    steps = {2: 2.0**-8, 4: 2.0**-23}[np.dtype(dtype).itemsize]
    return len(arrays) * steps * sum(np.abs(a.astype(np.float64)) for a in arrays) + 1e-30


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(COUNTS).flatmap(
        lambda n: st.tuples(st.just(n), st.sampled_from([g for g in COUNTS if g <= n]))
    ),
    st.sampled_from(DTYPES),
    st.sampled_from(sorted(OPERATORS)),
    st.sampled_from([1, 2]),
    st.sampled_from([nl.shared_hbm, nl.sbuf]),
    st.integers(1, 40),
    st.integers(0, 2**31),
)
def test_an_all_reduce_is_the_reduction_of_the_group_on_each_rank(
    counts, dtype, name, lnc, where, width, seed
):
    count, size = counts
    rng = np.random.default_rng(seed)
    arrays = [values(rng, (3, width), dtype) for _ in range(count)]
    groups = groups_of(count, size)
    call = lambda srcs, dsts: ncc.all_reduce(srcs, dsts, groups, getattr(nl, name))  # noqa: E731
    found = exchanged(arrays, call, (3, width), lnc, where)
    for group in groups.groups:
        members = [arrays[rank] for rank in group]
        wanted = OPERATORS[name].reduce([a.astype(np.float64) for a in members])
        for rank in group:
            np.testing.assert_array_equal(found[rank], found[group[0]])
            error = np.abs(found[rank].astype(np.float64) - wanted)
            assert (error <= (bound(members, dtype) if name == "add" else 0)).all()


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(COUNTS),
    st.sampled_from(DTYPES),
    st.sampled_from([1, 2]),
    st.sampled_from([nl.shared_hbm, nl.sbuf]),
    st.integers(1, 3),
    st.integers(0, 2**31),
)
def test_a_reduce_scatter_is_the_part_of_an_all_reduce(count, dtype, lnc, where, rows, seed):
    rng = np.random.default_rng(seed)
    arrays = [values(rng, (rows * count, 5), dtype) for _ in range(count)]
    group = ncc.ReplicaGroup([list(range(count))])
    found = exchanged(
        arrays,
        lambda srcs, dsts: ncc.reduce_scatter(srcs, dsts, group, 0, nl.add),
        (rows, 5),
        lnc,
        where,
    )
    wanted = sum(a.astype(np.float64) for a in arrays)
    error = np.abs(np.concatenate(found).astype(np.float64) - wanted)
    assert (error <= bound(arrays, dtype)).all()


def test_an_order_is_summed_from_the_left_and_rounded_at_each_node():
    one, small = np.float32(1), np.float32(2**-9)
    shared = {0: np.array([one]), 1: np.array([small]), 2: np.array([small])}
    add = ALU["add"].apply
    nested = reduce_in_order(((0, 1), 2), shared, add, BFLOAT16)
    at_once = reduce_in_order((0, 1, 2), {**shared, 1: np.array([3 * small])}, add, BFLOAT16)
    assert nested[0] == 1  # 1 + 2**-9 is a tie, and 1 is even; twice
    assert at_once[0] == 1 + 2**-7
    assert reduce_in_order(((0, 1), 2), shared, add, FLOAT32)[0] == 1 + 2**-8


REFUSED = {
    "op is multiply; legal: nl.add, nl.minimum or nl.maximum": lambda s, d: ncc.all_reduce(
        s, d, groups_of(2, 2), nl.multiply
    ),
    "collective_dim=1 of tensors in HBM; legal there: 0": lambda s, d: ncc.reduce_scatter(
        s, d, groups_of(2, 2), 1, nl.add
    ),
    "legal: a destination 1/2 as large as the source": lambda s, d: ncc.reduce_scatter(
        s, d, groups_of(2, 2), 0, nl.add
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_a_reduction_refuses(message):
    arrays = [np.ones((4, 4), np.float32)] * 2
    with pytest.raises(IllegalInstruction, match=message.replace("(", r"\(")):
        exchanged(arrays, REFUSED[message], (4, 4))
    exchanged(arrays, lambda s, d: ncc.all_reduce(s, d, groups_of(2, 2), nl.add), (4, 4))


def test_one_dimension_in_sbuf_is_the_partitions():
    arrays = [np.ones((4, 4), np.float32)] * 2
    with pytest.raises(
        IllegalInstruction, match=r"a destination 1/2 as large .* along dimension 0"
    ):
        exchanged(
            arrays,
            lambda s, d: ncc.reduce_scatter(s, d, groups_of(2, 2), 0, nl.add),
            (4, 2),
            where=nl.sbuf,
        )


def test_a_sum_repeats_whatever_the_order_of_the_ranks(monkeypatch):
    rng = np.random.default_rng(0)
    arrays = [values(rng, (8, 64), np.float32) for _ in range(16)]
    call = lambda s, d: ncc.all_reduce(s, d, groups_of(16, 16), nl.add)  # noqa: E731
    first = exchanged(arrays, call, (8, 64))
    made = trnsim.program.ranks.Ranks.__init__

    def backwards(self, fabric, count):
        made(self, fabric, count)
        self.order = list(reversed(range(count)))

    monkeypatch.setattr(trnsim.program.ranks.Ranks, "__init__", backwards)
    np.testing.assert_array_equal(first, exchanged(arrays, call, (8, 64)))


def test_a_run_without_values_takes_the_same_time():
    array, call = np.ones((64, 64), np.float32), None
    call = lambda s, d: ncc.all_reduce(s, d, groups_of(8, 4), nl.add)  # noqa: E731
    runs = [
        trnsim.run(exchange, array, call, (64, 64), ranks=8, numerics=numerics)
        for numerics in (True, False)
    ]
    assert runs[0].total_time_s == runs[1].total_time_s
    assert runs[1].outputs == (None,) * 8


@pytest.mark.parametrize(("base", "is_exact"), [(2**22, True), (2**28, False), (-(2**28), False)])
def test_integers_are_added_in_float32_as_the_engine_has_no_other_sum(base, is_exact):
    """EVRF061.rst: the engine "has no native integer reduction datapath"."""
    arrays = [np.full((1, 3), base + rank, np.int32) for rank in range(4)]
    groups = groups_of(4, 4)
    call = lambda srcs, dsts: ncc.all_reduce(srcs, dsts, groups, nl.add)  # noqa: E731
    found = exchanged(arrays, call, (1, 3), 1, nl.shared_hbm)
    exact = np.sum(arrays, axis=0, dtype=np.int64)
    assert (found[0] == exact).all() == is_exact
    assert (np.abs(found[0] - exact) <= 4 * 2.0**-24 * abs(exact)).all()
    assert (found[0] == found[0].astype(np.float32)).all(), "each is a float32"
