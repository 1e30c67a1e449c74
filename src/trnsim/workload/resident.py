"""Memory of a model from its graphs: parameters, and keys and values of its sequences."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import WHOLE, Cache, Pass, Phase, Split
from trnsim.workload.passes import summaries
from trnsim.workload.summary import PartSummary

_MOST_CACHED_MODELS: Final = 256
"""Maximum number of models, each with its split, whose parts are kept."""


@lru_cache(_MOST_CACHED_MODELS)
def _parts(model: Architecture, split: Split) -> tuple[PartSummary, ...]:
    """Summaries of the parts of all towers (layers, embeddings, heads) on one rank.

    Lengths do not matter for parameters.
    """
    return summaries(model, Pass(Phase.TRAIN, 1, 1), split)


def parameters(model: Architecture) -> int:
    """Number of parameters of the model; weights that layers share count once."""
    return round(sum(part.times * part.parameters for part in _parts(model, WHOLE)))


def active_parameters(model: Architecture) -> int:
    """Parameters that one token uses; weights that layers share count once for each layer.

    The input embedding counts whole, although a token reads one row of it. Model cards count
    differently: gpt-oss's (arXiv:2508.10925, table 1) counts the output embedding alone.
    """
    return round(sum(part.times * part.active_parameters for part in _parts(model, WHOLE)))


def weights_bytes(model: Architecture, split: Split = WHOLE) -> float:
    """Bytes of the parameters that one rank holds."""
    return sum(part.times * part.resident_bytes for part in _parts(model, split))


def cache_bytes(model: Architecture, tokens: int, split: Split = WHOLE, source: int = 0) -> float:
    """Bytes of keys and values of one sequence of `tokens` that one rank keeps.

    A decode step reads and writes these bytes at the last token: a window keeps no more tokens than
    its length, cross attention keeps `source` tokens, a mixer keeps one state.
    """
    return _last_step_cache(model, tokens, split, source).kept_bytes


def state_bytes(model: Architecture, split: Split = WHOLE) -> float:
    """Bytes of states of one sequence that one rank keeps, whatever its length."""
    return _last_step_cache(model, 1, split, 1).replaced_bytes


def _last_step_cache(model: Architecture, tokens: int, split: Split, source: int) -> Cache:
    """The cache that the decode step of a sequence's last token reads and writes."""
    step = Pass(Phase.DECODE, 1, 1, max(tokens - 1, 0), source=source)
    parts = summaries(model, step, split)
    return sum((part.cache.times(part.times) for part in parts), Cache(0.0, 0.0))
