"""The two constants of networks without a formula: a part of the peak, and seconds of a call.

bench/system/graphs.json has what their graphs compute (network_operators.py). In each fold the
constants are those of the least squared error on all other networks, each of which counts once,
however many rows it has.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
from folds import LANES, PEAK, Constants, Judged, sigma

PARTS = np.exp(np.arange(-2.3, -0.3, 0.025))
"""Of the peak: from a tenth to three quarters."""
CALLS_S = np.arange(0.0, 0.8e-3, 0.02e-3)
VECTOR_HZ = 1.12e9


def networks():
    """What each row computes, by its id."""
    file = Path(__file__).parent / "graphs.json"
    return {one["id"]: one for one in json.loads(file.read_text(encoding="utf-8"))}


def seconds(network, part, call_s, bytes_per_s):
    """Seconds of a network: the longest of products, weights and elements of each block."""
    whole_s = network["formula_s"]
    for graph in network["graphs"]:
        times, flop, weights, elements = np.array(graph["blocks"], float).T
        flop *= graph.get("slower", 1)
        each_s = np.maximum(flop / (part * PEAK), weights / bytes_per_s)
        each_s = np.maximum(each_s, elements / (LANES * VECTOR_HZ))
        whole_s += graph["times"] * (call_s + float(times @ each_s))
    return whole_s


def judge(cases):
    """Each case judged by a fit that saw no row of its network, and the fit to all."""
    known, base = networks(), Constants()
    tried = list(product(PARTS, CALLS_S))
    table = [[seconds(known[case.id], *pair, base.bytes_per_s) for pair in tried] for case in cases]
    errors = np.log(np.array(table) / np.array([[case.published_s] for case in cases]))
    names = np.array([case.architecture for case in cases])
    share = np.array([1 / np.sum(names == name) for name in names])
    own, found = np.zeros(len(cases)), {}
    for name in set(names):
        weights = np.where(names == name, 0.0, share)
        best = int(np.argmin(weights @ errors**2))
        own[names == name] = errors[names == name, best]
        found[name] = _constants(tried[best])
    judged = [
        Judged(
            case,
            case.published_s * float(np.exp(error)),
            sigma(own[names != case.architecture]),
            found[case.architecture],
        )
        for case, error in zip(cases, own, strict=True)
    ]
    return judged, _constants(tried[int(np.argmin(share @ errors**2))])


def _constants(pair):
    return Constants(products=float(pair[0]), call_s=float(pair[1]))
