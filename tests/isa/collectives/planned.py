"""The kernel of plans, run on their ranks."""

from contextlib import contextmanager
from typing import NamedTuple

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np
from drawn_collectives import NUMPY, VARIABLE, counts, sources

import trnsim
from trnsim.program.ranks import Ranks

MEMORIES = {"shared": nl.shared_hbm, "private": nl.private_hbm, "sbuf": nl.sbuf}
LEFT_OUT = -1


class Seen:
    """A rank's destinations after the collective: bits, flags of written elements, and registers.

    Attributes:
        bits: of each destination.
        flags: of each destination.
        outputs: what the rank returned: copies of the destinations, then the metadata.
        before: for each channel of an implicit permute the rank whose data came.
    """

    def __init__(self):
        self.bits = self.flags = self.outputs = self.before = ()

    def look(self, targets):
        self.bits = [np.array(tile.bits()) for tile in targets]
        self.flags = [tile.written_flags() for tile in targets]


def group_of(plan):
    """The ReplicaGroup."""
    if plan.partition is None:
        return ncc.ReplicaGroup([list(group) for group in plan.groups])
    name, operand = plan.partition
    return ncc.ReplicaGroup.from_partition_op(
        plan.ranks, getattr(ncc.rg_partition_op, name), operand
    )


def allocated(plan, name, which):
    """The tensors of the plan: sources (1) or destinations (2)."""
    return [
        nl.ndarray(
            row[which],
            dtype=getattr(nl, row[0]),
            buffer=MEMORIES[plan.memory],
            name=f"{name}{place}",
        )
        for place, row in enumerate(plan.tensors)
    ]


def copied(tensor):
    """A copy that may be returned."""
    out = nl.ndarray(tensor.shape, dtype=tensor.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=tensor)
    return out


def call(plan, srcs, others, dsts, metadata):
    """Issue the collective."""
    kind, group, op = plan.kind, group_of(plan), getattr(nl, plan.op)
    channels = list(range(len(srcs)))
    if kind == "all_reduce":
        ncc.all_reduce(srcs, dsts, group, op)
    elif kind == "reduce_scatter":
        ncc.reduce_scatter(srcs, dsts, group, plan.dim, op)
    elif kind in ("all_gather", "all_to_all"):
        getattr(ncc, kind)(srcs, dsts, group, plan.dim)
    elif kind == "collective_permute":
        pairs = [(ring[at - 1], ring[at]) for ring in plan.groups for at in range(len(ring))]
        ncc.collective_permute(srcs, dsts, pairs)
    elif kind == "collective_permute_implicit":
        ncc.collective_permute_implicit([[a] for a in srcs], [[a] for a in dsts], group, channels)
    elif kind == "collective_permute_implicit_reduce":
        lists = ([[one] for one in tensors] for tensors in (srcs, others, dsts))
        ncc.collective_permute_implicit_reduce(*lists, group, op, channels)
    else:
        is_known, has_places, _ = plan.flags
        getattr(ncc, kind)(
            srcs, dsts, group, metadata, recv_counts_known=is_known, has_rdispls=has_places
        )


def loaded(plan, given):
    """The metadata tensor."""
    is_on_chip = plan.flags[2]
    shape = (1, *given.shape) if is_on_chip else given.shape
    where = nl.sbuf if is_on_chip else MEMORIES[plan.memory]
    metadata = nl.ndarray(shape, dtype=nl.uint32, buffer=where, name="metadata")
    nisa.dma_copy(dst=metadata, src=given.reshape(shape))
    return metadata


def ranks_before(plan):
    """For each channel a cell with the rank whose data comes first."""
    cells = []
    for channel in range(len(plan.tensors)):
        found = ncc.collective_permute_implicit_current_processing_rank_id(
            1, group_of(plan), channel
        )
        cell = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
        nisa.register_store(cell, found)
        cells.append(copied(cell))
    return tuple(cells)


def issue(plan, given, seen):
    """One exchange from copies of arrays; returns copies of what came, if all of it is written."""
    srcs, dsts = allocated(plan, "src", 1), allocated(plan, "dst", 2)
    others = allocated(plan, "other", 1) if len(given.arrays) > len(srcs) else []
    for tensor, array in zip(srcs, given.arrays, strict=False):
        rows = array.shape[0] - given.missing
        nisa.dma_copy(dst=tensor[:rows], src=array[:rows])
    for tensor, array in zip(others, given.arrays[len(srcs) :], strict=True):
        nisa.dma_copy(dst=tensor, src=array)
    for tensor, array in zip(dsts, given.background, strict=True):
        nisa.dma_copy(dst=tensor, src=array)
    metadata = loaded(plan, given.counts) if plan.kind in VARIABLE else None
    if plan.lnc > 1 and plan.memory == "shared":
        is_shared = plan.kind in VARIABLE and not plan.flags[2]
        for tensor in (*srcs, *others, *dsts, *([metadata] * is_shared)):
            nisa.core_barrier(tensor, (0, 1))
    call(plan, srcs, others, dsts, metadata)
    seen.look(dsts)
    before = ranks_before(plan) if "implicit" in plan.kind else ()
    outs = () if plan.missing else tuple(map(copied, dsts))
    after = (copied(metadata),) if plan.kind in VARIABLE else ()
    return (*outs, *after, *before)


class Given(NamedTuple):
    """What one rank gives to a plan."""

    arrays: tuple
    background: tuple
    counts: np.ndarray
    missing: int


def given_to(plan):
    """For each rank what it gives."""
    arrays = sources(plan)
    known = counts(plan) if plan.kind in VARIABLE else [np.zeros((1, 1), np.uint32)] * plan.ranks
    background = tuple(np.zeros(shape, NUMPY[name]) for name, _, shape in plan.tensors)
    who, rows = plan.missing or (-1, 0)
    return [
        Given(tuple(arrays[rank]), background, known[rank], rows if rank == who else 0)
        for rank in range(plan.ranks)
    ]


@contextmanager
def in_order(order):
    """In this block ranks take turns in this order."""
    made = Ranks.__init__

    def init(self, fabric, count):
        made(self, fabric, count)
        self.order = order

    Ranks.__init__ = init
    try:
        yield
    finally:
        Ranks.__init__ = made


@nki.jit
def issued(plans, given, seen, delays):
    """The plans one after the other; before each, this rank computes for a while of its own.

    It leaves out those with `LEFT_OUT` for a delay.
    """
    found = ()
    for plan, one, look, delay in zip(plans, given, seen, delays, strict=True):
        if delay == LEFT_OUT:
            continue
        for _ in range(delay):
            tile = nl.ndarray((1, 8), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(tile, 0)
            nisa.tensor_scalar(dst=tile, data=tile, op0=nl.add, operand0=1.0)
        found += issue(plan, one, look)
    return found


def launched(plans, delays, seen):
    """The world of the plans; `delays` are by plan and rank."""
    first = plans[0]
    given = [given_to(plan) for plan in plans]
    return trnsim.run(
        issued[first.lnc],
        ranks=first.ranks,
        inputs=lambda rank: (
            tuple(plans),
            *(tuple(of_plan[rank] for of_plan in of_all) for of_all in (given, seen, delays)),
        ),
        target=first.target,
    )


def unseen(plans):
    """For each plan and rank, nothing seen yet."""
    return [[Seen() for _ in range(plan.ranks)] for plan in plans]


def run_all(plans, delays):
    """For each plan what each rank has in the end, and the world."""
    seen = unseen(plans)
    world = launched(plans, delays, seen)
    for rank, outputs in enumerate(world.outputs):
        left = list(map(np.asarray, outputs))
        for plan, of_plan in zip(plans, seen, strict=True):
            channels = len(plan.tensors) if "implicit" in plan.kind else 0
            copies = 0 if plan.missing else len(plan.tensors)
            copies += plan.kind in VARIABLE
            one = of_plan[rank]
            one.outputs = left[:copies]
            one.before = [int(cell[0, 0]) for cell in left[copies : copies + channels]]
            left = left[copies + channels :]
    return seen, world


def run(plan):
    """What each rank has in the end."""
    return run_all([plan], [[0] * plan.ranks])[0][0]
