"""Published rows as questions, and what fits that saw only some of them say.

A row's `Answer` is the log error of an estimate whose constants were fitted to given rows, with the
shares of its time by cause. Constants of a family with no row left are those of nothing: its rows
then have no answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache

import cases as published
import families
import gpu_rows
import graph_fit
import numpy as np
from folds import PEAK, SIZES, SQUARES, Rows, fit
from training import trainings
from training_fit import seconds as training_seconds

from trnsim.workload.kinds import ModelKind
from trnsim.workload.operators import Phase
from trnsim.workload.resident import parameters

TRAINING, GPUS, ENCODERS = "training", "GPU training", published.ENCODERS
PASSES = np.arange(0.0, 2.8, 0.1)
"""Logarithms of passes of an element in training, between which times are interpolated."""
PAGES = {"BERT": "encoder", "ViT-": "vision", "CLIP": "vision"}
"""Of trn1's tables of training, by the first letters of a model; all others are of decoders."""


@dataclass(frozen=True)
class Row:
    """A published time as a question.

    Attributes:
        id: the row's.
        family: of constants.
        chip: "trn1".
        batch: sequences or images at once; in training, of a micro batch.
        length: tokens that a query attends to.
        size: parameters.
        architecture: width and depth.
        source: the page that printed it.
        kind: of the model.
        phase: of the pass.
        ranks: tensor ranks.
        case: what it is estimated from.
    """

    id: str
    family: str
    chip: str
    batch: int
    length: int
    size: float
    architecture: str
    source: str
    kind: str
    phase: str
    ranks: int
    case: object


@dataclass(frozen=True)
class Answer:
    """An estimate by given constants.

    Attributes:
        row: the question.
        error: logarithm of (estimate / published).
        scores: part of its time that scores of attention take.
        read: part that weights, keys and values take beyond products.
    """

    row: Row
    error: float
    scores: float = 0.0
    read: float = 0.0


@cache
def rows():
    """All rows that have an answer and that fits may see."""
    found = [_inference(case) for case in published.cases() if _is_answered(case)]
    found += [_training(case) for case in trainings() if not case.why]
    return (*found, *map(_gpu, _gpu_cases()))


def _is_answered(case):
    if case.family in published.IMAGES:
        return case.id in graph_fit.networks()
    return case.model is not None and not case.why


def _inference(case):
    given, shapes = case.given, case.row["shapes"]
    batch = given.batch if given else int(shapes["Batch Size"])
    length = given.tokens + given.past if given else 0
    size = parameters(case.model) if case.model is not None else 0
    kind = ModelKind.DIFFUSION if case.family == published.DIFFUSION else ModelKind.NETWORK
    kind = kind if case.family in published.IMAGES else case.model.kind
    phase = Phase.ENCODE if given is None else given.phase
    page = case.row["source"].replace("aws-neuron-sdk/about-neuron/benchmarks/", "")
    return Row(
        *(case.id, case.family, case.target, batch, length, size),
        *(case.architecture, page, kind, phase, case.ranks, case),
    )


def _training(case):
    name = next((page for key, page in PAGES.items() if case.id.startswith(key)), "decoder")
    batch, size = int(case.row["microbatch"]), parameters(case.model)
    return Row(
        *(f"{case.id}, {case.row['dtype']}", TRAINING, "trn1", batch, case.sequence, size),
        *(case.architecture, f"trn1/training, {name}"),
        *(case.model.kind, Phase.TRAIN, case.tensor, case),
    )


@cache
def _gpu_cases():
    return [gpu_rows.Case(row) for row in json.loads(gpu_rows.ROWS.read_text(encoding="utf-8"))]


def _gpu(case):
    layout, model = case.layout, case.model
    page = case.row["source"].split("@")[0].split(",")[0]
    return Row(
        *(case.row["id"], GPUS, case.gpu, layout.micro_batch, layout.sequence, parameters(model)),
        *(case.name, page, model.kind, Phase.TRAIN, layout.tensor, case),
    )


BASES = {published.DIFFUSION: (published.ENCODERS, published.PREFILL)}
"""Families whose rows a family's constants follow from beside its own; of others, encoders'."""
STARTS = {
    published.ENCODERS: (families.ENCODE, families.ENCODE_FREE, SQUARES),
    published.CLIP: (families.ENCODE, (), SQUARES),
    published.DECODE: (families.DECODE, families.DECODE_FREE, SQUARES),
    published.PREFILL: (families.PREFILL, families.PREFILL_FREE, SIZES),
}
"""Where a fit of a family starts, its free constants, and the power of errors."""


def answers(asked, seen):
    """Answers for rows by constants that were fitted to `seen` alone."""
    known = frozenset(row.id for row in seen)
    found = []
    for family in dict.fromkeys(row.family for row in asked):
        found += _answers(family, [row for row in asked if row.family == family], known)
    return found


def _rows_of(family, known):
    return [
        row
        for row in rows()
        if row.family == family and row.id in known and not row.id.startswith("neuronmm-")
    ]


def _answers(family, asked, known):
    seen = _rows_of(family, known)
    encoders = _rows_of(published.ENCODERS, known)
    if not seen or not encoders:
        return []
    keys = tuple(row.id for row in seen), tuple(row.id for row in encoders)
    if family == published.NETWORKS:
        return _networks(asked, seen)
    if family == published.DIFFUSION:
        return _denoisers(asked, _rows_of(published.PREFILL, known), keys[1])
    if family == TRAINING:
        return _trained(asked, seen, _encode(keys[1]))
    if family == GPUS:
        return _on_gpus(asked, seen)
    return _few(family, asked, seen, keys)


@cache
def _by_id():
    return {row.id: row for row in rows()}


@cache
def _encode(ids):
    """Constants of encoders, fitted to some of their rows."""
    seen = [_by_id()[name] for name in ids]
    start, free = families.ENCODE, families.ENCODE_FREE
    return fit(Rows([row.case for row in seen]), *_of_chips(start, free, seen))


def _of_chips(start, free, seen):
    """A start and free constants without those of a chip that has no rows."""
    if any(row.chip == "inf2" for row in seen) and any(row.chip == "trn1" for row in seen):
        return start, free
    alone = {"inf2_products": 1.0, "inf2_half_s": None}
    return replace(start, **alone), tuple(name for name in free if name not in alone)


@cache
def _fitted(family, ids, encoders):
    encode = _encode(encoders)
    start, free, power = STARTS[family]
    shared = {"products": encode.products, "inf2_products": encode.inf2_products}
    seen = [_by_id()[name] for name in ids]
    start, free = _of_chips(replace(start, **shared), free, seen)
    start = replace(start, inf2_products=encode.inf2_products)
    return fit(_Linear(Rows([row.case for row in seen]), start), start, free, power)


class _Linear:
    """Rows whose products are given: their times are linear in all other constants."""

    NAMES = ("half_s", "inf2_half_s", "cache_passes", "sequence_s", "score_s")

    def __init__(self, table, start):
        zero = replace(start, **dict.fromkeys(self.NAMES, 0.0))
        self.base = table.seconds(zero)
        units = [replace(zero, **{name: 1.0}) for name in self.NAMES]
        self.each = np.array([table.seconds(unit) - self.base for unit in units])
        self.published_s = table.published_s

    def errors(self, found):
        """Logarithms of estimate over published."""
        values = [getattr(found, name) for name in self.NAMES]
        values[1] = values[0] if values[1] is None else values[1]
        return np.log((self.base + np.array(values) @ self.each) / self.published_s)


def _few(family, asked, seen, keys):
    factor = 0.0
    if family == published.ENCODERS:
        found = _encode(keys[1])
    elif family == published.CLIP:
        found = _encode(keys[1])
        factor = float(Rows([row.case for row in seen]).errors(found).mean())
    else:
        found = _fitted(family, *keys)
    table = Rows([row.case for row in asked])
    total = table.seconds(found)
    errors = np.log(total / table.published_s) - factor
    scored = total - table.seconds(replace(found, score_s=0.0))
    read = total - table.seconds(replace(found, cache_passes=0.0)) + _weights_s(table, found)
    return [
        Answer(row, float(errors[at]), float(scored[at] / total[at]), float(read[at] / total[at]))
        for at, row in enumerate(asked)
    ]


def _weights_s(table, found):
    """Seconds of weights beyond products, of all cases."""
    share = found.products * np.where(table.is_inf2, found.inf2_products, 1.0)
    more = np.maximum(table.weights / found.bytes_per_s - table.flop / (share * PEAK), 0.0)
    return np.bincount(table.at, table.times * more, len(table.cases))


def _denoisers(asked, prompts, encoders):
    """Answers by what encoders and prompts that were seen say; without prompts, none."""
    if not prompts:
        return []
    of_prompts = _fitted(published.PREFILL, tuple(row.id for row in prompts), encoders)
    found = graph_fit.of_denoisers(_encode(encoders), of_prompts)
    known = graph_fit.networks()
    return [
        Answer(row, float(np.log(graph_fit.seconds(known[row.id], found) / row.case.published_s)))
        for row in asked
    ]


def _networks(asked, seen):
    table = _network_table()
    names = [row.architecture for row in seen]
    weights = np.array([1 / names.count(name) for name in names])
    errors = np.array([table[row.id] for row in seen])
    best = int(np.argmin(graph_fit.misfit(errors, weights, graph_fit.TRIED)))
    return [Answer(row, float(table[row.id][best])) for row in asked]


@cache
def _network_table():
    """Errors of each CNN and Perceiver by all constants that are tried."""
    known = graph_fit.networks()
    return {
        row.id: np.log([graph_fit.seconds(known[row.id], each) for each in graph_fit.TRIED])
        - np.log(row.case.published_s)
        for row in rows()
        if row.family == published.NETWORKS
    }


def _trained(asked, seen, encode):
    table = _training_table(round(encode.products, 2), round(encode.half_s, 6))
    sizes = np.mean([np.abs(table[row.id]) for row in seen], axis=0)
    best = int(np.argmin(sizes))
    return [Answer(row, float(table[row.id][best])) for row in asked]


@cache
def _training_table(products, half_s):
    """Errors of each row of training by every number of passes."""
    encode = replace(families.ENCODE, products=products, half_s=half_s)
    fine = np.arange(0.0, PASSES[-1], 0.02)
    table = {}
    for row in rows():
        if row.family == TRAINING:
            seconds = [training_seconds(row.case, encode, float(np.exp(one))) for one in PASSES]
            errors = np.log(np.array(seconds) / row.case.published_s)
            table[row.id] = np.interp(fine, PASSES, errors)
    return table


def _on_gpus(asked, seen):
    """Answers by a part of the peak and a launch of each GPU; without rows, by the other GPU's."""
    answers = []
    for chip in dict.fromkeys(row.chip for row in asked):
        own = [row for row in seen if row.chip == chip] or seen
        lost = np.mean([np.abs(_gpu_table()[row.id]) for row in own], axis=0)
        launch, part = np.unravel_index(int(np.argmin(lost)), lost.shape)
        fixed_s, base = gpu_rows.FIXED_S[launch], float(gpu_rows.GRID[own[0].chip][part])
        for row in asked:
            if row.chip == own[0].chip:
                error = float(_gpu_table()[row.id][launch, part])
            elif row.chip == chip:
                error = float(np.log1p(row.case.error(base=base, eager_s=fixed_s)))
            if row.chip == chip:
                answers.append(Answer(row, error))
    return answers


@cache
def _gpu_table():
    """Errors of each row on a GPU by launches and parts of its peak."""
    return {
        row.id: np.log1p(
            [
                [row.case.error(base=float(base), eager_s=fixed_s) for base in gpu_rows.GRID[chip]]
                for fixed_s in gpu_rows.FIXED_S
            ]
        )
        for row in rows()
        if row.family == GPUS
        for chip in (row.chip,)
    }
