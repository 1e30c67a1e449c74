"""What ranks write at their end, made up."""


def figures(rank, collectives, compute_s=1e-3, floor="PROGRAM"):
    """A rank that computes, makes its collectives (kind, bytes, ranks, calls), and awaits them."""
    step = [[compute_s, "begin", number] for number in range(len(collectives))]
    return {
        "rank": rank,
        "target": "trn2",
        "steps": 3,
        "device_time_s": compute_s,
        "launch_s": 0.0,
        "calls": 1,
        "missing": {},
        "collectives": [
            {"kind": kind, "ranks": list(ranks), "floor": floor, "nbytes": [nbytes] * calls}
            for kind, nbytes, ranks, calls in collectives
        ],
        "exchanges": {
            str(number): [kind, list(ranks), floor, 0]
            for number, (kind, _, ranks, _) in enumerate(collectives)
        },
        "step": [*step[:1], *([0.0, *one[1:]] for one in step[1:]), [0.0, "end", -1]],
    }
