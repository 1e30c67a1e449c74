import plans

from trnsim.fabric import direct

RANKS = (5, 9, 2)


def moved(kind):
    (one,) = getattr(direct, kind)(plans.group(RANKS), 3.0)
    rows = zip(one.sources.tolist(), one.targets.tolist(), one.nbytes.tolist(), strict=True)
    return sorted(rows)


def test_what_goes_where():
    others = sorted((a, b, 1.0) for a in RANKS for b in RANKS if a != b)
    assert moved("all_to_all") == others
    assert moved("scatter") == [(5, 2, 1.0), (5, 9, 1.0)]
    assert moved("gather") == [(2, 5, 1.0), (9, 5, 1.0)]
    assert moved("permute") == [(2, 5, 3.0), (5, 9, 3.0), (9, 2, 3.0)]
    assert moved("send") == [(5, 2, 3.0)]
