"""Random legal programs of one collective, as plans, and the values that their ranks offer."""

from dataclasses import dataclass, replace
from math import prod

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

REDUCING = ("all_reduce", "reduce_scatter", "collective_permute_implicit_reduce")
VARIABLE = ("all_to_all_v", "all_gather_v")
KINDS = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"),
    *("collective_permute_implicit", "collective_permute_implicit_reduce", *VARIABLE),
)
ON_CHIP = {"all_reduce", "all_gather", "reduce_scatter"} | {kind for kind in KINDS if "imp" in kind}
MEMORIES = ("private", "sbuf", "shared")
CORES_OF_A_CHIP = {"trn1": 2, "trn2": 8, "trn3": 8}
PARTITIONS = 128

DTYPES = {
    "float32": np.float32,
    "tfloat32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "bool_": np.bool_,
}
OF_V4 = {
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
    "float8_e5m2_x4": np.dtype([("float8_e5m2_x4", np.uint32)]),
    "float8_e4m3fn_x4": np.dtype([("float8_e4m3fn_x4", np.uint32)]),
    "float4_e2m1fn_x4": np.dtype([("float4_e2m1fn_x4", np.uint16)]),
}
NUMPY = DTYPES | OF_V4


@dataclass(frozen=True)
class Plan:
    """One collective on ranks.

    Attributes:
        kind: its name in nki.collectives.
        target: the chip.
        ranks: how many.
        lnc: cores of a rank.
        groups: the groups; of an explicit permute its rings.
        partition: the arguments of `from_partition_op` that makes the groups, if that does.
        memory: one of `MEMORIES`.
        tensors: for each the dtype, and the shapes of source and destination.
        dim: collective_dim.
        op: the reduction.
        missing: a rank, and how many rows of each of its sources nothing writes: the last ones; the
            second operand of a reduction is whole.
        flags: recv_counts_known, has_rdispls, and whether the metadata are in SBUF.
        seed: of the values.
    """

    kind: str
    target: str
    ranks: int
    lnc: int
    groups: tuple[tuple[int, ...], ...]
    partition: tuple[str, int] | None
    memory: str
    tensors: tuple[tuple[str, tuple[int, ...], tuple[int, ...]], ...]
    dim: int
    op: str
    missing: tuple[int, int] | None
    flags: tuple[bool, bool, bool]
    seed: int

    @property
    def size(self):
        """Ranks of a group, equal for all groups; of rings, which differ, the first's."""
        return len(self.groups[0])


# Groups


def partitioned(ranks, name, operand):
    """The ranks with equal results, in the order of the results."""
    numbers_of = {"div": np.floor_divide, "mod": np.mod, "bitwise_and": np.bitwise_and}
    keys = numbers_of[name](np.arange(ranks), operand)
    return tuple(tuple(np.flatnonzero(keys == key).tolist()) for key in np.unique(keys))


@st.composite
def replica_groups(draw, ranks):
    """Groups of one size, with the operation that makes them or None."""
    size = draw(st.sampled_from([n for n in (1, 2, 4, 8, 16, 32, 64) if n <= ranks]))
    how = draw(st.sampled_from(["div", "mod", "bitwise_and", "shuffled", "next to each other"]))
    if how == "bitwise_and":
        operand = draw(st.integers(0, ranks - 1))
        return partitioned(ranks, how, operand), (how, operand)
    if how in ("div", "mod"):
        operand = size if how == "div" else ranks // size
        return partitioned(ranks, how, operand), (how, operand)
    order = draw(st.permutations(range(ranks))) if how == "shuffled" else range(ranks)
    return tuple(tuple(order[at : at + size]) for at in range(0, ranks, size)), None


@st.composite
def ring_pairs(draw, ranks, chip):
    """Rings of an explicit permute: each of some ranks of two chips that have a connection."""
    block = min(ranks, 2 * chip)
    rings = []
    for first in range(0, ranks, block):
        members = draw(st.permutations(range(first, first + block)))
        count = draw(st.sampled_from([0, *range(2, block + 1)] if rings else range(2, block + 1)))
        if count:
            rings.append(tuple(members[:count]))
    return tuple(rings), None


@st.composite
def groups_of_kind(draw, kind, target, ranks, lnc):
    chip = CORES_OF_A_CHIP[target] // lnc
    if kind == "collective_permute":
        return draw(ring_pairs(ranks, chip))
    if kind == "all_gather_v":
        found = [draw(st.permutations(range(at, at + 4))) for at in range(0, ranks, 4)]
        return tuple(map(tuple, found)), None
    if kind == "all_to_all_v" and target == "trn3":
        size = draw(st.sampled_from([n for n in (8, 16, 32, 64) if n <= ranks]))
        return partitioned(ranks, "div", size), None
    return draw(replica_groups(ranks))


# Shapes


@st.composite
def hbm_shape(draw, ranks):
    """One to three dimensions; at most 200 elements, fewer on many ranks."""
    most = 200 if ranks < 16 else 24
    first = draw(st.sampled_from([1, 2, 3, 5, most]))
    rest = draw(
        st.lists(st.sampled_from([1, 2, 3, 7]), max_size=2).filter(lambda n: first * prod(n) < 500)
    )
    return (first, *rest)


@st.composite
def sbuf_shape(draw, most):
    """[P, F]; up to so many partitions."""
    return draw(st.sampled_from(sorted({1, 2, 3, most} & set(range(1, most + 1))))), draw(
        st.sampled_from([1, 2, 5, 33])
    )


@st.composite
def shapes(draw, kind, memory, dim, ranks, size):
    """The shapes of a source and of its destination."""
    times = size if kind in ("all_gather", "reduce_scatter", "all_to_all") else 1
    if memory == "sbuf":
        small = draw(sbuf_shape(PARTITIONS // (1 if dim else times)))
    else:
        small = draw(hbm_shape(ranks))
    large = tuple(n * (times if axis == dim else 1) for axis, n in enumerate(small))
    if kind == "all_gather":
        return small, large
    return (large, small) if kind == "reduce_scatter" else (large, large)


@st.composite
def tensors(draw, kind, memory, target, shape, op):
    """Dtypes and shapes: several tensors where they may be coalesced, one a channel."""
    names = dict(DTYPES) if target != "trn3" else dict(NUMPY)
    if kind in REDUCING:
        unable = {"bool_", "float8_e8m0fnu"} if op == "add" else set()
        names = {n: d for n, d in names.items() if not n.endswith("_x4") and n not in unable}
    count = 1
    if "implicit" in kind:
        count = draw(st.sampled_from([1, 2]))
    elif kind in KINDS[:4] and memory != "sbuf":
        count = draw(st.sampled_from([1, 1, 2, 3]))
    dtypes = st.sampled_from(sorted(names))
    if kind in VARIABLE:
        return ((draw(dtypes), *draw(shape)),)
    return tuple((draw(dtypes), *draw(shape)) for _ in range(count))


# Plans


@st.composite
def worlds(draw, kind, counts=(2, 4, 8, 16, 32, 64)):
    """Target, ranks, and cores of a rank."""
    target = draw(st.sampled_from(["trn2", "trn2", "trn3", *(["trn1"] * (kind != "all_gather_v"))]))
    least = {"all_gather_v": 4, "all_to_all_v": 8 if target == "trn3" else 2}.get(kind, 2)
    most = 32 if target == "trn1" else 64
    ranks = draw(st.sampled_from([n for n in counts if least <= n <= most]))
    is_fixed = kind == "all_gather_v" or (kind == "all_to_all_v" and target == "trn3")
    lnc = 1 if target == "trn1" else 2 if is_fixed else draw(st.sampled_from([1, 2]))
    return target, ranks, lnc


@st.composite
def plans(draw):
    """A plan that AWS's pages allow."""
    kind = draw(st.sampled_from(KINDS))
    return draw(plans_in(kind, *draw(worlds(kind))))


@st.composite
def sequences(draw):
    """Some plans in one world, each without what is missing."""
    target, ranks, lnc = draw(worlds("all_reduce", (2, 4, 8, 16)))
    is_paired, is_switched = lnc == 2, target == "trn3"
    unable = set()
    if not (is_paired and ranks >= 4):
        unable.add("all_gather_v")
    if is_switched and not (is_paired and ranks >= 8):
        unable.add("all_to_all_v")
    kinds = [kind for kind in KINDS if kind not in unable]
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=5))
    return [replace(draw(plans_in(kind, target, ranks, lnc)), missing=None) for kind in chosen]


@st.composite
def plans_in(draw, kind, target, ranks, lnc):
    """A plan of one collective on given ranks."""
    groups, partition = draw(groups_of_kind(kind, target, ranks, lnc))
    size = len(groups[0])
    memory = draw(st.sampled_from(MEMORIES if kind in ON_CHIP else ["private", "shared"]))
    dim = draw(st.sampled_from([0, 1])) if kind == "all_gather" and memory == "sbuf" else 0
    op = draw(st.sampled_from(["add", "minimum", "maximum"]))
    if kind in VARIABLE:
        slot = draw(st.sampled_from([1, 2, 7]))
        spare = draw(st.integers(0, 5))
        sent = size * slot + spare
        is_inside = kind == "all_to_all_v" and target != "trn3"
        shape = st.just(((sent,), (size * (sent if is_inside else slot),)))
        flags = (draw(st.booleans()), target == "trn3" and kind == "all_to_all_v")
        flags = (*(draw(st.booleans()) and one for one in flags), draw(st.booleans()))
    else:
        shape, flags = shapes(kind, memory, dim, ranks, size), (False, False, False)
    found = draw(tensors(kind, memory, target, shape, op))
    missing = None
    fewest = min(source[0] for _, source, _ in found)
    if kind not in VARIABLE and fewest > 1 and draw(st.integers(0, 4)) == 0:
        rank = draw(st.sampled_from(groups[0]))
        missing = rank, draw(st.integers(1, fewest - 1))
    seed = draw(st.integers(0, 2**31))
    return Plan(
        *(kind, target, ranks, lnc, groups, partition, memory),
        *(found, dim, op, missing, flags, seed),
    )


# Values


def bits(rng, shape, name):
    """Any bits at all that the dtype has, to be moved."""
    dtype = np.dtype(NUMPY[name])
    if name == "bool_":
        return rng.integers(0, 2, shape).astype(dtype)
    raw = rng.integers(0, 2 ** (8 * dtype.itemsize), shape, np.uint64)
    raw = raw.astype(f"u{dtype.itemsize}")
    if name == "tfloat32":  # its tensors hold float32 of which the last 13 bits are 0
        values = rng.standard_normal(shape).astype(np.float32)
        raw = values.view(np.uint32) >> 13 << 13
    return raw.view(dtype)


def numbers(rng, shape, name, ranks):
    """Numbers whose sum over the ranks is in the range of the dtype; of integers it is exact."""
    dtype = np.dtype(NUMPY[name])
    if name == "bool_":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        most = min(2**24, 2 ** (8 * dtype.itemsize - 1) - 1) // ranks
        return rng.integers(0 if dtype.kind == "u" else -most, most + 1, shape).astype(dtype)
    if name == "float8_e8m0fnu":
        return (2.0 ** rng.integers(-9, 10, shape)).astype(np.float32).astype(dtype)
    found = rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 1, shape)
    found = np.where(rng.random(shape) < 0.1, 0, found).clip(-2, 2).astype(np.float32)
    if name == "tfloat32":
        found = (found.view(np.uint32) >> 13 << 13).view(np.float32)
    return found.astype(dtype)


def sources(plan):
    """For each rank the arrays that it offers; an implicit reduction has two of each."""
    rng = np.random.default_rng(plan.seed)
    twice = 2 if plan.kind == "collective_permute_implicit_reduce" else 1
    drawn = list(plan.tensors) * twice
    if plan.kind not in REDUCING:
        return [[bits(rng, shape, name) for name, shape, _ in drawn] for _ in range(plan.ranks)]
    return [
        [numbers(rng, shape, name, plan.ranks) for name, shape, _ in drawn]
        for _ in range(plan.ranks)
    ]


def counts(plan):
    """The metadata of each rank: counts that fit, some of them 0; row 2 is to be overwritten."""
    rng = np.random.default_rng(plan.seed + 1)
    ((_, (offered,), (filled,)),) = plan.tensors
    _, has_places, _ = plan.flags
    slot, size = filled // plan.size, plan.size
    found = np.full((plan.ranks, 3 + has_places, size), 77, np.uint32)
    found[:, 0] = rng.integers(0, slot + 1, (plan.ranks, size))
    found[:, 1] = rng.integers(0, offered - found[:, 0] + 1)
    if has_places:
        for group in plan.groups:
            for rank in group:
                found[rank, 3] = slot * rng.permutation(size)
    return found
