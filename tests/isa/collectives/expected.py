"""What collectives leave on each rank, in numpy: nothing here is from trnsim.

Values are the bits of elements, so that what is moved is compared bit for bit. Reductions are of
float64, and may be off by the roundings of any algorithm: one a rank.
"""

from itertools import pairwise

import ml_dtypes
import numpy as np
from drawn_collectives import NUMPY, VARIABLE, counts, sources

REDUCTIONS = {"add": np.add, "minimum": np.minimum, "maximum": np.maximum}


def raw(array):
    """The bits of each element."""
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


def moved(plan, offered, before):
    """For each rank the arrays that it receives, flat; none for ranks that take no part.

    Args:
        plan: the plan.
        offered: for each rank its arrays: bits, or flags.
        before: for each rank and channel of an implicit permute the rank before it.
    """
    found = [None] * plan.ranks
    for group in plan.groups:
        for place, rank in enumerate(group):
            parts = zip(*(offered[member] for member in group), strict=True)
            if plan.kind == "all_gather":
                found[rank] = [np.concatenate(of_one, axis=plan.dim) for of_one in parts]
            elif plan.kind == "all_to_all":
                found[rank] = [
                    np.concatenate([np.split(one, len(group))[place] for one in of_one])
                    for of_one in parts
                ]
            elif plan.kind == "collective_permute":
                found[rank] = offered[group[place - 1]]
            else:
                found[rank] = [
                    offered[source][channel] for channel, source in enumerate(before[rank])
                ]
    return found


def reduced(plan, offered, combine, before):
    """For each rank the combinations that it receives; `combine` takes a list of arrays."""
    found = [None] * plan.ranks
    if plan.kind == "collective_permute_implicit_reduce":
        count = len(plan.tensors)
        own = [
            [combine([arrays[at], arrays[count + at]]) for at in range(count)] for arrays in offered
        ]
        return moved(plan, own, before)
    for group in plan.groups:
        parts = zip(*(offered[member] for member in group), strict=True)
        totals = [combine(list(of_one)) for of_one in parts]
        for place, rank in enumerate(group):
            found[rank] = [
                total if plan.kind == "all_reduce" else np.split(total, len(group))[place]
                for total in totals
            ]
    return found


def bound(arrays, name, op):
    """How far a sum may be off: half a step for each rounding, of the sum of the sizes."""
    if op != "add" or np.dtype(NUMPY[name]).kind in "iub":
        return np.zeros(arrays[0].shape)
    info = ml_dtypes.finfo(NUMPY[name])
    digits = 10 if name == "tfloat32" else info.nmant
    roundings = len(arrays) * (2.0 ** -(digits + 1) + 2.0**-24)
    total = sum(np.abs(one.astype(np.float64)) for one in arrays)
    return 1.1 * roundings * total + len(arrays) * float(info.smallest_normal)


def chunks(plan):
    """For each rank of a variable collective its destination, and the counts it received."""
    arrays, given = sources(plan), counts(plan)
    ((_, _, (filled,)),) = plan.tensors
    found = [(np.zeros_like(raw(of_one[0]), shape=filled), []) for of_one in arrays]
    for group in plan.groups:
        for place, rank in enumerate(group):
            for number, sender in enumerate(group):
                column = 0 if plan.kind == "all_gather_v" else place
                count, start = given[sender][:2, column].tolist()
                slot = filled // len(group) * number
                at = int(given[rank][3, number]) if plan.flags[1] else slot
                found[rank][0][at : at + count] = raw(arrays[sender][0])[start : start + count]
                found[rank][1].append(count)
    return found


def flags(plan):
    """For each rank which elements of its sources are written."""
    who, rows = plan.missing or (-1, 0)
    found = [[np.ones(array.shape, np.bool_) for array in arrays] for arrays in sources(plan)]
    for array in found[who][: len(plan.tensors)] if plan.missing else ():
        array[len(array) - rows :] = False
    return found


def check(plan, seen):
    """Compare what the ranks have with what they must have."""
    if plan.kind in VARIABLE:
        check_chunks(plan, seen)
        return
    before = [one.before for one in seen]
    if "implicit" in plan.kind:
        check_rings(plan, before)
    check_flags(plan, seen, before)
    if "reduce" in plan.kind:
        check_sums(plan, seen, before)
        return
    wanted = moved(plan, [list(map(raw, arrays)) for arrays in sources(plan)], before)
    for rank, arrays in enumerate(wanted):
        got = seen[rank].bits if plan.missing else seen[rank].outputs
        for at, (name, _, shape) in enumerate(plan.tensors):
            must = np.zeros(shape, raw(got[at]).dtype) if arrays is None else arrays[at]
            known = seen[rank].flags[at]
            assert got[at].dtype == np.dtype(NUMPY[name])
            np.testing.assert_array_equal(raw(got[at])[known], must.reshape(shape)[known])


def check_chunks(plan, seen):
    """Chunks lie where they belong, other elements are as before; counts are told if asked."""
    for rank, (data, received) in enumerate(chunks(plan)):
        out, metadata = seen[rank].outputs
        np.testing.assert_array_equal(raw(out), data)
        is_known = plan.flags[0]
        told = metadata.reshape(-1, len(received))[2].tolist()
        assert told == ([77] * len(received) if is_known else received)


def check_rings(plan, before):
    """The ranks before each other make one ring through the whole group, on each channel."""
    for channel in range(len(plan.tensors)):
        for group in plan.groups:
            ring = [group[0]]
            while len(ring) < len(group):
                ring.append(before[ring[-1]][channel])
            assert sorted(ring) == sorted(group)
            assert before[ring[-1]][channel] == ring[0]


def check_flags(plan, seen, before):
    """Elements that nothing wrote arrive unwritten, and what depends on them is unwritten."""
    offered = flags(plan)
    wanted = (
        reduced(plan, offered, np.logical_and.reduce, before)
        if "reduce" in plan.kind
        else moved(plan, offered, before)
    )
    for rank, arrays in enumerate(wanted):
        for at, (_, _, shape) in enumerate(plan.tensors):
            must = np.ones(shape, np.bool_) if arrays is None else arrays[at].reshape(shape)
            np.testing.assert_array_equal(seen[rank].flags[at], must)


def check_sums(plan, seen, before):
    """Reductions are within their bound, and equal on all ranks that have the same."""
    arrays = sources(plan)

    def combined(of_one):
        return REDUCTIONS[plan.op].reduce([one.astype(np.float64) for one in of_one])

    wanted = reduced(plan, arrays, combined, before)
    for at, (name, _, shape) in enumerate(plan.tensors):
        limits = reduced(plan, arrays, lambda of_one, n=name: bound(of_one, n, plan.op), before)
        for rank in range(plan.ranks):
            known = seen[rank].flags[at]
            got = (seen[rank].bits if plan.missing else seen[rank].outputs)[at]
            error = np.abs(got.astype(np.float64) - wanted[rank][at].reshape(shape))
            assert (error <= limits[rank][at].reshape(shape))[known].all()
        if plan.kind == "all_reduce":
            for one, other in (pair for group in plan.groups for pair in pairwise(group)):
                np.testing.assert_array_equal(raw(seen[one].bits[at]), raw(seen[other].bits[at]))
