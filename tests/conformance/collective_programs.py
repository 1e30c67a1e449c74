"""Programs of one collective, legal ones and what they are made of, for its documented limits."""

# nki: 0.6
# Since 0.7 all_to_all_v inside an instance wants room for every source of the group.

from dataclasses import dataclass, field
from typing import Any

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np

import trnsim

PAIRS = [[0, 1], [2, 3]]
ALL = [[0, 1, 2, 3]]
CHIPS = [list(range(8)), list(range(8, 16))]
HBM, PRIVATE, SBUF = nl.shared_hbm, nl.private_hbm, nl.sbuf
ON_ALL = ("all_reduce", "all_gather", "reduce_scatter")
VARIABLE = ("all_to_all_v", "all_gather_v")
IMPLICIT = ("collective_permute_implicit", "collective_permute_implicit_reduce")


@dataclass(frozen=True)
class Program:
    """One collective.

    Attributes:
        kind: its name.
        src: the shape of each source.
        dst: the shape of each destination.
        count: tensors of each list, or of each channel's.
        memories: of sources and destinations.
        groups: the replica groups.
        given: arguments by keyword, beside tensors and groups.
        counts: the metadata of each rank.
        metadata: their memory, dtype and shape where these are not the usual ones; `gaps` for a
            view with gaps.
        argument: whether an argument of the kernel stands for the first source.
        lnc: cores of a rank.
        run: arguments of `trnsim.run`.
    """

    kind: str
    src: tuple[int, ...] = (4, 4)
    dst: tuple[int, ...] = (4, 4)
    count: int = 1
    memories: tuple[Any, Any] = (HBM, HBM)
    groups: Any = field(default_factory=lambda: PAIRS)
    given: dict[str, Any] = field(default_factory=dict)
    counts: Any = ((1, 1), (0, 0), (0, 0))
    metadata: dict[str, Any] = field(default_factory=dict)
    argument: bool = False
    lnc: int = 1
    run: dict[str, Any] = field(default_factory=dict)


def made(program, name, shape, where, x):
    """The tensors of one list; sources are filled."""
    found = []
    for place in range(program.count):
        tensor = nl.ndarray(shape, dtype=x.dtype, buffer=where, name=f"{name}{place}")
        nisa.dma_copy(dst=tensor, src=x)
        found.append(tensor)
    return found


def metadata_of(program, counts):
    """The metadata tensor."""
    how = program.metadata
    where = how.get("memory", HBM)
    given = how.get("shape", counts.shape if where is HBM else (1, *counts.shape))
    if how.get("gaps"):
        wide = nl.ndarray((given[0], 2 * given[1]), dtype=counts.dtype, buffer=where, name="wide")
        tensor = wide[:, : given[1]]
    else:
        tensor = nl.ndarray(given, dtype=counts.dtype, buffer=where, name="metadata")
    nisa.dma_copy(dst=tensor, src=counts.reshape(given))
    return tensor


@nki.jit
def kernel(x, y, counts, program):
    srcs = made(program, "src", program.src, program.memories[0], x)
    dsts = made(program, "dst", program.dst, program.memories[1], y)
    if program.argument:
        srcs[0] = x
    group, given = ncc.ReplicaGroup(program.groups), program.given
    call = getattr(ncc, program.kind)
    if program.kind == "collective_permute":
        call(srcs, dsts, **given)  # here
    elif program.kind in VARIABLE:
        call(srcs, dsts, group, metadata_of(program, counts), **given)  # here
    elif program.kind in IMPLICIT:
        channels = len(given.get("channel_ids", [0]))
        lists = [[tensors] * channels for tensors in (srcs, srcs, dsts)]
        call(*lists[program.kind == IMPLICIT[0] :], group, **given)  # here
    elif "rank_id" in program.kind:
        call(0, group, **given)  # here
    else:
        call(srcs, dsts, group, **given)  # here
    return x


def run(program):
    """Run it on the ranks that its groups have, or as many as it says."""
    how = {"ranks": 4, **program.run}
    dtype = program.metadata.get("dtype", np.uint32)
    counts = np.array(program.counts).astype(dtype) if dtype is not None else program.counts
    x, y = (np.ones(shape, np.float32) for shape in (program.src, program.dst))
    return trnsim.run(kernel[program.lnc], x, y, counts, program, races="warn", **how)


def grouped(kind, **how):
    """A legal program of a collective on four ranks in pairs."""
    shapes = {"all_gather": ((4, 4), (8, 4)), "reduce_scatter": ((8, 4), (4, 4))}
    src, dst = shapes.get(kind, ((4, 4), (4, 4)))
    given = {"op": nl.add} if "reduce" in kind else {}
    if kind in ("all_gather", "reduce_scatter", "all_to_all"):
        given["collective_dim"] = 0
    if kind == "collective_permute":
        given["source_target_pairs"] = [(0, 1), (1, 0)]
    given |= how.pop("given", {})
    return Program(kind, src, dst, given=given, **how)


def variable(kind, **how):
    """A legal program of a variable collective: pairs of ranks, or chips where it needs them."""
    size = 4 if kind == "all_gather_v" else 2
    size = 8 if how.get("run", {}).get("target") == "trn3" else size
    rows = 4 if how.get("given", {}).get("has_rdispls") else 3
    counts = np.zeros((rows, size), int)
    counts[0] = 1
    if rows > 3:
        counts[3] = range(0, 2 * size, 2)
    defaults = {"src": (16,), "dst": (16,), "counts": counts, "lnc": 2}
    defaults["groups"] = {2: PAIRS, 4: ALL, 8: CHIPS}[size]
    return Program(kind, **{**defaults, **how})


def switched(**how):
    """A legal all_to_all_v on Trn3's switches."""
    return variable("all_to_all_v", run={"target": "trn3", "ranks": 16}, **how)


def beyond(row, column, value, counts):
    """The metadata with another value."""
    found = np.array(counts)
    found[row, column] = value
    return found
