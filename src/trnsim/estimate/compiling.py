"""A layer compiled now, whose time is kept for plans to come."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trnsim.arch import target
from trnsim.errors import BadInput
from trnsim.estimate.table import Point, keep, length_of, rank_of, signature
from trnsim.workload.operators import Phase, Split
from trnsim.workload.passes import blocks

if TYPE_CHECKING:
    from trnsim.workload.architecture import Architecture
    from trnsim.workload.operators import Block, Pass

_EXTRA: Final = "pip install 'trnsim[torch,models]'"
_LAYER: Final = "layer"


def compiled(path: Path, model: Architecture, name: str, given: Pass, ranks: int) -> float:
    """Seconds of one layer of a model on one of `ranks` tensor ranks, compiled and kept.

    Args:
        path: the model's config.json.
        model: what it describes.
        name: a target, "trn1".
        given: the pass; of several kinds of layers, the first is compiled.
        ranks: ranks that share the layer.

    Raises:
        BadInput: PyTorch or transformers is not there, or a pass is asked for that has no time of
            its own.
    """
    if find_spec("torch") is None or find_spec("transformers") is None:
        raise BadInput("a layer is compiled from its PyTorch module", fix=_EXTRA)
    if given.phase is Phase.TRAIN or (given.past and given.phase is not Phase.DECODE):
        legal = ", ".join(one for one in Phase if one is not Phase.TRAIN)
        raise BadInput(f"phase {given.phase} with {given.past} tokens before; legal: {legal}")
    shape = import_module("trnsim.torch.models.shape").ModelShape(
        str(given.phase), given.batch, given.tokens, given.past, ranks, is_padded=True
    )
    found = import_module("trnsim.torch.models.layer").compiled_layer(path, shape, name)
    time_s = float(found.time_s)
    rank = rank_of(name, int(target(name).core.logical_core_max))
    key = signature(layer_of(model, given, ranks), given)
    keep(rank, key, given.phase, Point(given.batch, length_of(given), time_s))
    return time_s


def layer_of(model: Architecture, given: Pass, ranks: int) -> Block:
    """The first of a model's layers as one of `ranks` tensor ranks has it."""
    return next(one for one in blocks(model, given, Split(ranks)) if one.name == _LAYER)
