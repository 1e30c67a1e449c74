"""all_gather, all_to_all and collective_permute against a reference in numpy."""

import nki.collectives as ncc
import nki.language as nl
import numpy as np
import pytest
from exchanges import DTYPES, exchange, exchanged, groups_of, values
from hypothesis import given, settings
from hypothesis import strategies as st

import trnsim
from trnsim.errors import IllegalInstruction

COUNTS = (1, 2, 4, 8, 16)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(COUNTS).flatmap(
        lambda n: st.tuples(st.just(n), st.sampled_from([g for g in COUNTS if g <= n]))
    ),
    st.sampled_from(DTYPES),
    st.sampled_from([1, 2]),
    st.sampled_from([(nl.shared_hbm, 0), (nl.sbuf, 0), (nl.sbuf, 1)]),
    st.tuples(st.integers(1, 3), st.integers(1, 9)),
    st.integers(0, 2**31),
)
def test_an_all_gather_has_every_ranks_part_in_the_order_of_the_group(
    counts, dtype, lnc, place, shape, seed
):
    count, size = counts
    where, dim = place
    rng = np.random.default_rng(seed)
    arrays = [values(rng, shape, dtype) for _ in range(count)]
    groups = groups_of(count, size)
    whole = tuple(n * size if axis == dim else n for axis, n in enumerate(shape))
    call = lambda srcs, dsts: ncc.all_gather(srcs, dsts, groups, dim)  # noqa: E731
    found = exchanged(arrays, call, whole, lnc, where)
    for group in groups.groups:
        wanted = np.concatenate([arrays[rank] for rank in group], axis=dim)
        for rank in group:
            np.testing.assert_array_equal(found[rank], wanted)


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(COUNTS),
    st.sampled_from(DTYPES),
    st.sampled_from([1, 2]),
    st.integers(1, 3),
    st.integers(0, 2**31),
)
def test_an_all_to_all_transposes_parts_and_ranks(count, dtype, lnc, rows, seed):
    rng = np.random.default_rng(seed)
    arrays = np.stack([values(rng, (count, rows, 7), dtype) for _ in range(count)])
    group = groups_of(count, count)
    found = exchanged(
        [array.reshape(-1, 7) for array in arrays],
        lambda srcs, dsts: ncc.all_to_all(srcs, dsts, group, 0),
        (count * rows, 7),
        lnc,
    )
    wanted = arrays.swapaxes(0, 1)
    np.testing.assert_array_equal(np.stack(found).reshape(wanted.shape), wanted)


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("pairs", [[(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 1), (1, 0)]])
def test_a_permute_sends_to_the_target_and_leaves_other_ranks_alone(lnc, pairs):
    arrays = [np.full((2, 2), rank, np.float32) for rank in range(4)]
    kernel = exchange if lnc == 1 else exchange[2]

    def call(srcs, dsts):
        trnsim.nki.isa.dma_copy(dst=dsts[0], src=srcs[0])
        ncc.collective_permute(srcs, dsts, pairs)

    world = trnsim.run(
        kernel, ranks=4, inputs=[(array, call, (2, 2)) for array in arrays], races="warn"
    )
    source = {target: source for source, target in pairs}
    for rank, out in enumerate(world.outputs):
        assert (np.asarray(out) == source.get(rank, rank)).all()
    idle = [rank for rank in range(4) if rank not in source]
    opcodes = [{span.opcode for span in run.timeline.spans()} for run in world.runs]
    assert [r for r in range(4) if "collective_permute" not in opcodes[r]] == idle


PERMUTES = {
    "make no ring": [(0, 1), (1, 2)],
    "make no ring; ": [(0, 1), (0, 2), (1, 0), (2, 0)],
    "and from another rank": [(0, 0), (1, 1)],
    "name rank 4; legal: 0 to 3": [(0, 4), (4, 0)],
    "legal: .source, target. for each rank": [],
}


@pytest.mark.parametrize("message", PERMUTES)
def test_a_permute_that_is_no_ring_is_refused(message):
    arrays = [np.ones((2, 2), np.float32)] * 4
    with pytest.raises(IllegalInstruction, match=message):
        exchanged(arrays, lambda s, d: ncc.collective_permute(s, d, PERMUTES[message]), (2, 2))


def test_neighbours_in_a_ring_have_a_connection():
    """Chips 0 and 2 of a row of four are not joined; 0 and 1 are."""
    arrays = [np.ones((2, 2), np.float32)] * 16
    far, near = [(0, 8), (8, 0)], [(0, 4), (4, 0)]
    where = {"lnc": 2, "instance": "trn2.48xlarge"}
    with pytest.raises(IllegalInstruction, match="ranks 0 and 8 are on chips without a connection"):
        exchanged(arrays, lambda s, d: ncc.collective_permute(s, d, far), (2, 2), **where)
    with pytest.raises(trnsim.errors.UninitializedRead):  # the other ranks read what nobody wrote
        exchanged(arrays, lambda s, d: ncc.collective_permute(s, d, near), (2, 2), **where)


REFUSED = {
    "collective_dim=1 of tensors in HBM": lambda s, d: ncc.all_gather(s, d, groups_of(2, 2), 1),
    "legal: a destination 2 times as large": lambda s, d: ncc.all_gather(s, d, groups_of(2, 2), 0),
    "legal: a destination as large": lambda s, d: ncc.all_to_all(s, [d[0][:2]], groups_of(2, 2), 0),
    "legal: as many equal parts as ranks": lambda s, d: ncc.all_to_all(
        [s[0][:1, :3]], [d[0][:1, :3]], groups_of(2, 2), 0
    ),
    "1 sources and 2 destinations": lambda s, d: ncc.all_to_all(s, d * 2, groups_of(2, 2), 0),
}


@pytest.mark.parametrize("message", REFUSED)
def test_sizes_and_dimensions_that_do_not_fit_are_refused(message):
    arrays = [np.ones((4, 4), np.float32)] * 2
    with pytest.raises(IllegalInstruction, match=message):
        exchanged(arrays, REFUSED[message], (4, 4))


def test_an_all_to_all_is_of_tensors_in_hbm():
    arrays = [np.ones((4, 4), np.float32)] * 2
    with pytest.raises(IllegalInstruction, match=r"`srcs` is .* SBUF .*legal: HBM"):
        exchanged(
            arrays, lambda s, d: ncc.all_to_all(s, d, groups_of(2, 2), 0), (4, 4), where=nl.sbuf
        )
