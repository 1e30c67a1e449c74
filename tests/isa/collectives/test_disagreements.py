"""Ranks of a group that pass different things: each is named with its line and what it passed."""

# nki: 0.6
# Since 0.7 all_to_all_v inside an instance wants room for every source of the group.

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import pytest

import trnsim
from trnsim.errors import Deadlock

RANKS = 4


@nki.jit
def kernel(call, given):
    """One collective of tensors that hold zeros."""
    call(**given)


def tensors(name, given, count, rows=None):
    shape = (given["rows"] if rows is None else rows, given["columns"])
    made = [
        nl.ndarray(shape, dtype=given["dtype"], buffer=given["where"], name=f"{name}{place}")
        for place in range(count)
    ]
    for tensor in made:
        zeros = nl.zeros(shape, dtype=given["dtype"], buffer=nl.sbuf)
        copy = nisa.tensor_copy if given["where"] is nl.sbuf else nisa.dma_copy
        copy(dst=tensor, src=zeros)
    return made


def all_reduce(**given):
    srcs, dsts = (tensors(name, given, given["count"]) for name in "sd")
    ncc.all_reduce(srcs, dsts, given["group"], given["op"])


def all_gather(**given):
    srcs = tensors("s", given, given["count"])
    dsts = tensors("d", given, given["count"], given["rows"] * RANKS)
    ncc.all_gather(srcs, dsts, given["group"], 0)


def reduce_scatter(**given):
    srcs = tensors("s", given, given["count"])
    dsts = tensors("d", given, given["count"], given["rows"] // RANKS)
    ncc.reduce_scatter(srcs, dsts, given["group"], 0, given["op"])


def all_to_all(**given):
    srcs, dsts = (tensors(name, given, given["count"]) for name in "sd")
    ncc.all_to_all(srcs, dsts, given["group"], 0)


def collective_permute(**given):
    srcs, dsts = (tensors(name, given, 1) for name in "sd")
    ncc.collective_permute(srcs, dsts, given["pairs"])


def collective_permute_implicit(**given):
    count = given["channels"]
    srcs, dsts = ([[one] for one in tensors(name, given, count)] for name in "sd")
    ncc.collective_permute_implicit(srcs, dsts, given["group"], list(range(count)))


def collective_permute_implicit_reduce(**given):
    count, group, op = given["channels"], given["group"], given["op"]
    one, other, to = ([[one] for one in tensors(name, given, count)] for name in "sod")
    ncc.collective_permute_implicit_reduce(one, other, to, group, op, list(range(count)))


def variable(call, given):
    counts = nl.ndarray((3, RANKS), dtype=nl.uint32, buffer=nl.shared_hbm, name="counts")
    nisa.dma_copy(dst=counts, src=nl.zeros((3, RANKS), dtype=nl.uint32, buffer=nl.sbuf))
    srcs, dsts = (tensors(name, given, 1) for name in "sd")
    call(srcs, dsts, given["group"], counts, recv_counts_known=given["known"])


def all_to_all_v(**given):
    variable(ncc.all_to_all_v, given)


def all_gather_v(**given):
    variable(ncc.all_gather_v, given)


def none(**_):
    """No collective."""


AGREED = {
    "dtype": nl.float32,
    "rows": 8,
    "columns": 8,
    "where": nl.shared_hbm,
    "group": ncc.ReplicaGroup([range(RANKS)]),
    "pairs": ((0, 1), (1, 2), (2, 3), (3, 0)),
    "op": nl.add,
    "count": 1,
    "channels": 1,
    "known": False,
}
ORDER = {"group": ncc.ReplicaGroup([[1, 0, 2, 3]])}
PAIRS = {"group": ncc.ReplicaGroup([[0, 2], [1, 3]])}
SHAPES = [{"dtype": nl.bfloat16}, {"dtype": nl.int32}, {"rows": 16}, {"columns": 4}]
SHAPES += [{"rows": 4, "columns": 16}]
ON_CHIP, PRIVATE = {"where": nl.sbuf}, {"where": nl.private_hbm}
OTHERS = {
    all_reduce: [*SHAPES, ORDER, PAIRS, ON_CHIP, {"op": nl.maximum}, {"count": 2}],
    all_gather: [*SHAPES, ORDER, ON_CHIP, {"count": 2}],
    reduce_scatter: [*SHAPES, ORDER, ON_CHIP, {"op": nl.minimum}, {"count": 2}],
    all_to_all: [*SHAPES, ORDER, PAIRS, {"count": 2}],
    collective_permute: [*SHAPES, {"pairs": ((1, 0), (2, 1), (3, 2), (0, 3))}],
    collective_permute_implicit: [*SHAPES, ORDER, PAIRS, ON_CHIP, {"channels": 2}],
    collective_permute_implicit_reduce: [
        *(*SHAPES, ORDER, PAIRS, ON_CHIP),
        *({"channels": 2}, {"op": nl.maximum}),
    ],
    all_to_all_v: [*SHAPES, ORDER, {"known": True}],
    all_gather_v: [*SHAPES, ORDER, {"known": True}],
}
CASES = [
    pytest.param(call, lnc, other, id=f"{call.__name__}-{lnc}-{'-'.join(other)}-{number}")
    for call, others in OTHERS.items()
    for lnc in ((2,) if call is all_gather_v else (1, 2))
    for number, other in enumerate([*others, *([PRIVATE] if lnc > 1 else [])])
]


def refused(calls, lnc, values):
    """The error of ranks that call these collectives."""
    with pytest.raises(Deadlock) as caught:
        trnsim.run(
            kernel[lnc],
            ranks=RANKS,
            inputs=calls,
            instance="trn2.48xlarge",
            numerics=values,
            races="warn",
        )
    return caught.value.reason


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize(("call", "lnc", "other"), CASES)
def test_a_rank_that_passes_something_else_is_named_with_what_it_passed(call, lnc, other, values):
    calls = [(call, {**AGREED, **(other if rank == 1 else {})}) for rank in range(RANKS)]
    text = refused(calls, lnc, values)
    agreed, alone = text.removeprefix("the ranks wait for each other for ever: ").split("; ")
    assert agreed.startswith(f"ranks 0, 2-3 wait in {call.__name__}")
    assert alone.startswith(f"rank 1 waits in {call.__name__}")
    said = [part.partition(" in ")[2].rpartition(" at ") for part in (agreed, alone)]
    assert said[0][0] != said[1][0]
    assert all("test_disagreements.py:" in line for *_, line in said)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("values", [True, False])
@pytest.mark.parametrize(("call", "lnc"), dict.fromkeys(case.values[:2] for case in CASES))
def test_a_rank_that_calls_another_collective_or_none(call, lnc, values):
    other = all_to_all if call is all_reduce else all_reduce
    text = refused([(other if rank == 2 else call, AGREED) for rank in range(RANKS)], lnc, values)
    assert f"ranks 0-1, 3 wait in {call.__name__}" in text
    assert f"rank 2 waits in {other.__name__}" in text
    text = refused([(none if rank == 2 else call, AGREED) for rank in range(RANKS)], lnc, values)
    assert f"ranks 0-1, 3 wait in {call.__name__}" in text
    assert text.endswith("rank 2 has ended")


@pytest.mark.parametrize("call", OTHERS)
def test_ranks_that_agree_meet(call):
    inputs = [(call, AGREED)] * RANKS
    world = trnsim.run(kernel[2], ranks=RANKS, inputs=inputs, instance="trn2.48xlarge")
    assert all(timeline.program for run in world.runs for timeline in run.timelines)
