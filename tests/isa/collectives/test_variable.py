"""all_to_all_v and all_gather_v against a reference in numpy; bounds, limits, definedness."""

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import trnsim
from trnsim.errors import IllegalInstruction, UndefinedBehavior, UninitializedRead

WIDTH = 8


@nki.jit
def exchanged(x, metadata, sizes, options, background):
    """One exchange; returns dst, and the metadata after it."""
    rows, n, groups = sizes["rows"], sizes["n"], sizes["groups"]
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray((sizes["dst"],), dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
    where = options.get("where", nl.shared_hbm)
    shape = (rows, n) if where is nl.shared_hbm else (1, rows, n)
    counts = nl.ndarray(shape, dtype=nl.uint32, buffer=where, name="counts")
    out = nl.ndarray((sizes["dst"],), dtype=x.dtype, buffer=nl.shared_hbm)
    after = nl.ndarray((rows, n), dtype=nl.uint32, buffer=nl.shared_hbm)
    written = options.get("written", x.shape[0])
    nisa.dma_copy(dst=src[:written], src=x[:written])
    known = options.get("rows_written", rows)
    nisa.dma_copy(dst=counts[..., :known, :], src=metadata.reshape(shape)[..., :known, :])
    if background is not None:
        nisa.dma_copy(dst=dst, src=background)
    flags = {key: options[key] for key in ("recv_counts_known", "has_rdispls") if key in options}
    getattr(ncc, options["call"])([src], [dst], groups, counts, **flags)
    nisa.dma_copy(dst=out, src=dst)
    nisa.dma_copy(dst=after, src=counts)
    return out, after


def run(
    sent,
    counts,
    displs,
    *,
    dst=None,
    places=None,
    lnc=2,
    group=None,
    target="trn2",
    version="0.6",
    **kw,
):
    """The outputs of each rank; `counts[r]` is what rank r sends to each."""
    ranks = len(sent)
    groups = ncc.ReplicaGroup(group or [list(range(ranks))])
    n = len(groups.groups[0])
    rows = 3 if places is None else 4
    options = {"call": "all_to_all_v", **({} if places is None else {"has_rdispls": True}), **kw}
    has_background = options.pop("background", True)

    def inputs(rank):
        metadata = np.full((rows, n), 77, np.uint32)
        metadata[0], metadata[1] = counts[rank], displs[rank]
        if places is not None:
            metadata[3] = places[rank]
        size = n * WIDTH if dst is None else dst
        sizes = {"rows": rows, "n": n, "dst": size, "groups": groups}
        background = np.full(size, -1, np.float32) if has_background else None
        return sent[rank], metadata, sizes, options, background

    world = trnsim.run(
        exchanged[lnc],
        ranks=ranks,
        inputs=inputs,
        target=target,
        races="warn",
        nki=version,
    )
    return world.outputs


def arrays_of(rng, ranks):
    return [
        rng.integers(0, 9999, ranks * WIDTH).astype(np.float32) + 10000 * rank
        for rank in range(ranks)
    ]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.sampled_from([nl.shared_hbm, nl.sbuf]),
    st.integers(0, 2**31),
)
def test_chunks_of_any_size_land_in_the_part_of_their_sender(ranks, lnc, known, where, seed):
    rng = np.random.default_rng(seed)
    sent = arrays_of(rng, ranks)
    counts = rng.integers(0, WIDTH + 1, (ranks, ranks))
    displs = rng.integers(0, ranks * WIDTH - WIDTH + 1, (ranks, ranks))
    outputs = run(sent, counts, displs, lnc=lnc, recv_counts_known=known, where=where)
    for rank, (out, after) in enumerate(outputs):
        wanted = np.full(ranks * WIDTH, -1)
        for sender in range(ranks):
            n, at = counts[sender, rank], displs[sender, rank]
            wanted[sender * WIDTH : sender * WIDTH + n] = sent[sender][at : at + n]
        np.testing.assert_array_equal(out, wanted)
        np.testing.assert_array_equal(after[2], [77] * ranks if known else counts[:, rank])


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**31))
def test_one_chunk_goes_to_all(seed):
    rng = np.random.default_rng(seed)
    sent = arrays_of(rng, 4)
    counts, displs = rng.integers(0, WIDTH + 1, (4, 4)), rng.integers(0, WIDTH, (4, 4))
    for out, after in run(sent, counts, displs, call="all_gather_v"):
        wanted = np.full(4 * WIDTH, -1)
        for sender in range(4):
            n, at = counts[sender, 0], displs[sender, 0]
            wanted[sender * WIDTH : sender * WIDTH + n] = sent[sender][at : at + n]
        np.testing.assert_array_equal(out, wanted)
        np.testing.assert_array_equal(after[2], counts[:, 0])


def test_displacements_say_where_chunks_land_on_switched_instances():
    rng = np.random.default_rng(0)
    sent = arrays_of(rng, 8)
    counts, displs = np.full((8, 8), 2), np.zeros((8, 8), int)
    places = np.array([[2 * (7 - sender) for sender in range(8)]] * 8)
    for out, _ in run(sent, counts, displs, places=places, target="trn3", dst=20):
        np.testing.assert_array_equal(
            out[:16], np.concatenate([sent[7 - at][:2] for at in range(8)])
        )
    overlapping = np.array([[0, 1, *range(4, 16, 2)]] * 8)
    with pytest.raises(UndefinedBehavior, match="from ranks 0 and 1 overlaps at element 1"):
        run(sent, counts, displs, places=overlapping, target="trn3", dst=20)
    with pytest.raises(IllegalInstruction, match="has room for 1 there; legal: counts within"):
        run(sent, counts, displs, places=places, target="trn3", dst=15)
    with pytest.raises(
        IllegalInstruction, match=r"has_rdispls=True on trn2.*: on instances with switches"
    ):
        run(sent, counts, displs, places=places, dst=20)


def test_counts_lie_within_both_buffers():
    sent = arrays_of(np.random.default_rng(0), 2)
    fits, zero = np.full((2, 2), WIDTH), np.zeros((2, 2), int)
    run(sent, fits, zero + WIDTH)
    more, later, all_of_it = fits.copy(), zero.copy(), zero + 2**32 - 1
    more[0, 1] += 1
    later[1, 0] = WIDTH + 1
    for counts, displs, message in (
        (more, zero, "rank 0 sends 9 elements to place 0 to rank 1, and the destination has room"),
        (fits, later, "rank 1 sends elements 9 to 17 to rank 0, and its source has 16"),
        (all_of_it, zero, "rank 0 sends elements 0 to 4294967295 to rank 0, and its source has"),
    ):
        with pytest.raises(IllegalInstruction, match=message):
            run(sent, counts, displs)


def test_only_what_is_sent_has_to_be_written_and_only_what_came_is():
    sent = arrays_of(np.random.default_rng(0), 2)
    two, zero = np.full((2, 2), 2), np.zeros((2, 2), int)
    run(sent, two, zero, written=2)
    with pytest.raises(UninitializedRead, match=r"sends elements 4 to 6 of src .* none of which"):
        run(sent, two, zero + 4, written=2)
    with pytest.raises(IllegalInstruction, match="some elements were never written"):
        run(sent, two, zero, written=1)
    with pytest.raises(IllegalInstruction, match="some elements were never written"):
        run(sent, two, zero, background=False)
    run(sent, np.full((2, 2), WIDTH), zero, background=False)


def test_metadata_are_written_as_a_whole():
    sent = arrays_of(np.random.default_rng(0), 2)
    two, zero = np.full((2, 2), 2), np.zeros((2, 2), int)
    run(sent, two, zero, rows_written=2)
    with pytest.raises(UninitializedRead, match="all_to_all_v reads counts"):
        run(sent, two, zero, rows_written=1)


LIMITS = {
    "LNC=1; legal: LNC=2": {"call": "all_gather_v", "lnc": 1},
    r"the group \[0-1\] has 2 ranks on 1 chips; legal: 4 ranks of one chip": {
        "call": "all_gather_v",
        "group": [[0, 1], [2, 3]],
    },
    "LNC=1 on Trn3 .*; legal: LNC=2": {"target": "trn3", "lnc": 1},
    r"has 4 ranks on 1 devices; legal: more than one device": {"target": "trn3"},
}


@pytest.mark.parametrize("message", LIMITS)
def test_documented_limits(message):
    sent = arrays_of(np.random.default_rng(0), 4)
    n = 2 if "group" in LIMITS[message] else 4
    counts = np.zeros((4, n), int)
    with pytest.raises(IllegalInstruction, match=message):
        run(sent, counts, counts, **LIMITS[message])


def test_the_metadata_has_a_column_for_each_rank_and_is_uint32():
    sent, pairs = arrays_of(np.random.default_rng(0), 4), [[0, 1], [2, 3]]
    counts = np.zeros((4, 2), int)
    run(sent, counts, counts, group=pairs)
    with pytest.raises(IllegalInstruction, match=r"legal for 2 ranks: \[4, 2\]"):
        run(sent, counts, counts, group=pairs, has_rdispls=True)


def test_a_run_without_values_meets_too():
    x, metadata = np.zeros(16, np.float32), np.zeros((3, 2), np.uint32)
    sizes = {"rows": 3, "n": 2, "dst": 32, "groups": ncc.ReplicaGroup([[0, 1]])}
    world = trnsim.run(
        exchanged,
        ranks=2,
        inputs=lambda _: (x, metadata, sizes, {"call": "all_to_all_v"}, None),
        numerics=False,
    )
    assert "all_to_all_v" in {span.opcode for span in world.runs[0].timeline.spans()}


def test_inside_an_instance_dst_has_src_for_each_rank_since_07():
    sent, two = arrays_of(np.random.default_rng(0), 2), np.full((2, 2), 2)
    for size in (16, 20, 32):
        run(sent, two, two, dst=size, version="0.6")
    run(sent, two, two, dst=32, version="0.7")
    with pytest.raises(IllegalInstruction) as caught:
        run(sent, two, two, dst=20, version="0.7")
    assert caught.value.reason == (
        "all_to_all_v: dst has 20 elements and src 16, in the group [0-1] inside trn2.3xlarge; "
        "legal under NKI 0.7: 32, those of src for each rank"
    )
    assert caught.value.fix.startswith("allocate dst with ranks * src elements")
    assert caught.value.line.file == __file__


def test_between_instances_displacements_are_legal_since_07():
    ranks, half = 64, 32
    sent = [np.full(WIDTH, rank, np.float32) for rank in range(ranks)]
    pairs = [[rank, rank + half] for rank in range(half)]
    counts, displs = np.full((ranks, 2), 2), np.zeros((ranks, 2), int)
    places = np.array([[4, 0]] * ranks)
    options = {"places": places, "dst": 6, "lnc": 1, "target": "trn1"}
    outputs = run(sent, counts, displs, version="0.7", group=pairs, **options)
    for rank, (out, _) in enumerate(outputs):
        first, second = rank % half, rank % half + half
        np.testing.assert_array_equal(out, [second, second, -1, -1, first, first])
    with pytest.raises(IllegalInstruction, match=r"legal under NKI 0\.6: on instances with"):
        run(sent, counts, displs, version="0.6", group=pairs, **options)
    neighbours = [[rank, rank + 1] for rank in range(0, ranks, 2)]
    with pytest.raises(IllegalInstruction, match="for ranks of one number in different instances"):
        run(sent, counts, displs, version="0.7", group=neighbours, **options)
