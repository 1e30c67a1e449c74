"""What a plan does to chunks, followed by hand: an oracle for the algorithms' traffic."""

from collections import Counter

from trnsim.fabric.fabric import fabric
from trnsim.fabric.group import RankGroup

NODE = fabric("trn2.48xlarge", lnc=2)
TWO = fabric("trn2.48xlarge", nodes=2, lnc=2)


def group(ranks=range(64), on=NODE):
    """A group of ranks."""
    return RankGroup(on, tuple(ranks))


def received(plan):
    """Bytes that come to each rank from others."""
    total = Counter()
    for one in plan:
        rows = zip(one.sources.tolist(), one.targets.tolist(), one.nbytes.tolist(), strict=True)
        for source, target, nbytes in rows:
            total[target] += nbytes * one.repeat * (source != target)
    return total


def sent(plan):
    """Bytes that go from each rank to others."""
    total = Counter()
    for one in plan:
        rows = zip(one.sources.tolist(), one.targets.tolist(), one.nbytes.tolist(), strict=True)
        for source, target, nbytes in rows:
            total[source] += nbytes * one.repeat * (source != target)
    return total
