"""Operators of ATen as operations of the graph, one file for each family.

None of them calls PyTorch.
"""

from __future__ import annotations

from trnsim.torch.aten.decomposition import Decomposition
from trnsim.torch.aten.decompositions import (
    activations,
    attention,
    collectives,
    comparisons,
    convolution,
    distances,
    division,
    drawing,
    elementwise,
    experts,
    indexing,
    losses,
    movement,
    normalization,
    optimizers,
    products,
    recurrent,
    reductions,
    resampling,
    sampling,
    sorting,
    special_functions,
    windows,
)

DECOMPOSITIONS: dict[str, Decomposition] = {
    **elementwise.DECOMPOSITIONS,
    **comparisons.DECOMPOSITIONS,
    **division.DECOMPOSITIONS,
    **special_functions.DECOMPOSITIONS,
    **activations.DECOMPOSITIONS,
    **drawing.DECOMPOSITIONS,
    **distances.DECOMPOSITIONS,
    **reductions.DECOMPOSITIONS,
    **products.DECOMPOSITIONS,
    **attention.DECOMPOSITIONS,
    **experts.DECOMPOSITIONS,
    **convolution.DECOMPOSITIONS,
    **normalization.DECOMPOSITIONS,
    **movement.DECOMPOSITIONS,
    **indexing.DECOMPOSITIONS,
    **resampling.DECOMPOSITIONS,
    **sampling.DECOMPOSITIONS,
    **recurrent.DECOMPOSITIONS,
    **sorting.DECOMPOSITIONS,
    **windows.DECOMPOSITIONS,
    **losses.DECOMPOSITIONS,
    **optimizers.DECOMPOSITIONS,
    **collectives.DECOMPOSITIONS,
}
"""By the operator's plain name: "add" for aten::add.Tensor and for aten::add_.Tensor."""
