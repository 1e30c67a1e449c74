"""Constants of models without a formula, and each row's estimate by constants that it did not fit.

CNNs and Perceivers have two constants of their own, a part of the peak and seconds of a call: in
each fold the likeliest (`misfit`) by all other networks, each of which counts once, however many
rows it has. Of denoisers nothing is fitted (`of_denoisers`). bench/system/graphs.json has what
their graphs compute (network_operators.py).
"""

from __future__ import annotations

import json
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
from folds import LANES, PEAK, Constants, Judged, sigma

from trnsim.estimate.constants import DIFFUSION

VECTOR_HZ = 1.12e9
PARTS = np.exp(np.arange(-2.3, -0.3, 0.025))
"""Of the peak: from a tenth to three quarters."""
CALLS_S = np.arange(0.0, 0.8e-3, 0.02e-3)
TRIED = [
    Constants(products=float(part), call_s=float(call_s))
    for part, call_s in product(PARTS, CALLS_S)
]
"""Constants of CNNs and Perceivers, among which a fit chooses."""
CALL_S, ERROR = 0.5e-3, 0.2
"""One sigma of a call's time before any row is seen, assumed; and of the logarithm of an error."""


def of_denoisers(encode, prompts):
    """Constants of denoisers on Inferentia2, from those of encoders and of prompts there.

    Products reach what encoders' reach. An attention takes what some halves of prompts take
    (`half_s` is of all of these), and each of its scores what its softmax takes on the Vector
    Engine.
    """
    half_s = prompts.half_s if prompts.inf2_half_s is None else prompts.inf2_half_s
    return Constants(
        products=encode.products * encode.inf2_products,
        half_s=float(DIFFUSION.attention_halves) * half_s,
        kernel_score_s=float(DIFFUSION.kernel_passes) / (LANES * VECTOR_HZ),
    )


@cache
def networks():
    """What each network computes, by row."""
    file = Path(__file__).with_name("graphs.json")
    return {one["id"]: one for one in json.loads(file.read_text(encoding="utf-8"))}


def seconds(network, found):
    """Seconds of a network: of each block the longest of products, weights and elements.

    If scores have a time of their own, attention is apart: scores, and a fixed time of each.
    """
    whole_s = network["formula_s"]
    for graph in network["graphs"]:
        columns = np.array(graph["blocks"], float).T
        times, flop, weights, elements, attention_flop, scores, attentions = columns
        if found.kernel_score_s:
            flop = flop - attention_flop
        flop = flop * graph.get("slower", 1)
        each_s = np.maximum(flop / (found.products * PEAK), weights / found.bytes_per_s)
        each_s = np.maximum(each_s, elements / (LANES * VECTOR_HZ))
        each_s = each_s + scores * found.kernel_score_s + attentions * found.half_s
        whole_s += graph["times"] * (found.call_s + float(times @ each_s))
    return whole_s


def misfit(errors, weights, tried):
    """Weighted squared errors by each of the tried constants, and how far their call is from none.

    Rows of long times alone do not say what a call takes, so that it would be anything.
    """
    calls_s = np.array([each.call_s for each in tried])
    return weights @ errors**2 + (ERROR * calls_s / CALL_S) ** 2


def judge(cases, tried):
    """Each case judged by a fit among constants that saw no row of its network; the fit to all."""
    known = networks()
    table = [[seconds(known[case.id], each) for each in tried] for case in cases]
    errors = np.log(np.array(table) / np.array([[case.published_s] for case in cases]))
    names = np.array([case.architecture for case in cases])
    share = np.array([1 / np.sum(names == name) for name in names])
    own, found = np.zeros(len(cases)), {}
    for name in dict.fromkeys(names):
        weights = np.where(names == name, 0.0, share)
        best = int(np.argmin(misfit(errors, weights, tried)))
        own[names == name] = errors[names == name, best]
        found[name] = tried[best]
    judged = [
        Judged(
            case,
            float(np.exp(error)) * case.published_s,
            sigma(own[names != case.architecture]),
            found[case.architecture],
        )
        for case, error in zip(cases, own, strict=True)
    ]
    return judged, tried[int(np.argmin(misfit(errors, share, tried)))]
