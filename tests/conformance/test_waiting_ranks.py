"""Ranks that do not come together: who waits for whom, where, and what each passed.

Each diagnosis has a program in which rank 1 does one thing differently, and its twin in which no
rank does. The error is the same in whatever order ranks take turns.
"""

import re

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
import pytest

import trnsim
from trnsim.errors import Deadlock, IllegalInstruction, UninitializedRead
from trnsim.program.ranks import Ranks

ORDERS = ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2])
ALL = [[0, 1, 2, 3]]
PAIRS = [[0, 1], [2, 3]]
AT = r" at \S*test_waiting_ranks\.py:(\d+)"
THERE = " in (?:shared |private )?HBM in"
SUM = r"all_reduce\(op=add\) of float32 \[4, 4\] to \[4, 4\]" + THERE + r" group \[0-3\]" + AT
GATHER = (
    r"all_gather\(collective_dim=0\) of float32 \[4, 4\] to \[16, 4\]"
    + THERE
    + r" group \[0-3\]"
    + AT
)


@nki.jit
def kernel(x, fault):
    """Two collectives; `fault` is what this rank does differently, or None."""

    def tensor(shape, name):
        dtype = nl.bfloat16 if fault == "dtype" else x.dtype
        return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm, name=name)

    rows = 2 if fault == "shape" else 4
    src, total, joined = tensor((rows, 4), "src"), tensor((rows, 4), "sum"), tensor((16, 4), "all")
    if fault != "unwritten":
        tile = nl.ndarray((rows, 4), dtype=src.dtype, buffer=nl.sbuf)
        nisa.memset(tile, 1)
        nisa.dma_copy(dst=src, src=tile)
    if fault == "ended" or (fault == "a core ended" and nl.program_id(0) == 1):
        return
    if fault == "raised":
        raise ValueError("what this rank says")
    if fault == "order":
        ncc.all_gather([src], [joined], ncc.ReplicaGroup(ALL), 0)  # gathered first
    groups = {"group": PAIRS, "left out": [[0, 1, 2]], "overlap": [[0, 1], [1, 2, 3]]}
    group = ncc.ReplicaGroup(groups.get(fault, ALL))
    if fault == "collective":
        ncc.all_to_all([src], [total], group, 0)  # another
    elif fault == "permute":
        ncc.collective_permute([src], [total], [(0, 1), (1, 0)])  # permuted
    else:
        ncc.all_reduce([src], [total], group, nl.maximum if fault == "operator" else nl.add)  # sum
    if fault == "ended later":
        return
    if fault != "order":
        ncc.all_gather([src], [joined], ncc.ReplicaGroup(ALL), 0)  # gathered


def run(fault, order, lnc=1):
    """All four ranks, of which rank 1 has the fault."""
    made = Ranks.__init__

    def init(self, fabric, count):
        made(self, fabric, count)
        self.order = order

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ranks, "__init__", init)
        return trnsim.run(
            kernel[lnc],
            ranks=4,
            inputs=lambda rank: (np.ones((4, 4), np.float32), fault if rank == 1 else None),
            races="warn",
        )


OTHERS = "ranks 0, 2-3 wait in "
WAITING = {
    "collective": OTHERS
    + SUM
    + r"; rank 1 waits in all_to_all of float32 \[4, 4\] to \[4, 4\]"
    + THERE
    + r" group \[0-3\]"
    + AT,
    "permute": OTHERS + SUM + r"; rank 1 waits in collective_permute of float32 \[4, 4\] to "
    r"\[4, 4\]" + THERE + r" group \[0-1\]" + AT,
    "group": OTHERS + SUM + r"; rank 1 waits in all_reduce\(op=add\) of float32 \[4, 4\] to "
    r"\[4, 4\]" + THERE + r" group \[0-1\]" + AT,
    "dtype": OTHERS + SUM + r"; rank 1 waits in all_reduce\(op=add\) of bfloat16 \[4, 4\] to "
    r"\[4, 4\]" + THERE + r" group \[0-3\]" + AT,
    "shape": OTHERS + SUM + r"; rank 1 waits in all_reduce\(op=add\) of float32 \[2, 4\] to "
    r"\[2, 4\]" + THERE + r" group \[0-3\]" + AT,
    "operator": OTHERS + SUM + r"; rank 1 waits in all_reduce\(op=maximum\) of float32 \[4, 4\] "
    r"to \[4, 4\]" + THERE + r" group \[0-3\]" + AT,
    "order": OTHERS + SUM + "; rank 1 waits in " + GATHER,
    "ended": OTHERS + SUM + "; rank 1 has ended",
    "ended later": OTHERS + GATHER + "; rank 1 has ended",
}
LINES = {
    "collective": ("sum", "another"),
    "permute": ("sum", "permuted"),
    "order": ("sum", "gathered first"),
    "ended": ("sum",),
    "ended later": ("gathered",),
}


def line_of(mark):
    """The number of the line of this file that ends with a mark."""
    with open(__file__, encoding="utf-8") as file:  # noqa: PTH123  a line by line search
        (found,) = (n for n, line in enumerate(file, 1) if line.endswith(f"  # {mark}\n"))
    return found


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("fault", WAITING)
def test_ranks_that_wait_for_ever_are_named_with_what_each_passed(fault, lnc):
    said = set()
    for order in ORDERS:
        run(None, order, lnc)
        with pytest.raises(Deadlock) as caught:
            run(fault, order, lnc)
        said.add(str(caught.value))
    (text,) = said
    found = re.match("the ranks wait for each other for ever: " + WAITING[fault] + "\n", text)
    assert found, text
    marks = LINES.get(fault, ("sum", "sum"))
    assert [int(line) for line in found.groups()] == list(map(line_of, marks))
    assert "let the ranks of a group issue the same collectives" in caught.value.fix


def test_a_core_that_ends_is_missed_by_its_rank():
    for order in ORDERS:
        run(None, order, 2)
        with pytest.raises(Deadlock, match="ranks 0-3 wait in all_reduce") as caught:
            run("a core ended", order, 2)
        assert "on every core of a rank" in caught.value.fix


REFUSED = {
    "left out": (IllegalInstruction, r"all_reduce: the groups \[0-2\] leave out rank 3; legal:"),
    "overlap": (IllegalInstruction, r"all_reduce: the groups .* overlap: rank 1 is in several"),
    "unwritten": (UninitializedRead, "all_reduce reads src"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_the_rank_that_is_wrong_is_named_and_the_others_stop(fault):
    error, message = REFUSED[fault]
    for order in ORDERS:
        run(None, order)
        with pytest.raises(error, match=f"^{message}") as caught:
            run(fault, order)
        assert caught.value.__notes__ == ["on rank 1 of 4"]
        assert caught.value.line.line == line_of("sum")


def test_what_a_rank_raises_itself_stands():
    for order in ORDERS:
        with pytest.raises(ValueError, match="what this rank says"):
            run("raised", order)
