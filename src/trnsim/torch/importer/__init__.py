"""PyTorch's operators as operations of the graph: what an eager call, or a compiled one, asks for.

Each importer takes a `Build` and the operator's own arguments, tensors as values of the graph, and
gives the value or values that the operator returns. One table serves eager calls and graphs.
"""

from __future__ import annotations

from trnsim.torch.importer import (
    activations,
    attention,
    convolution,
    distances,
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
    triangular,
    windows,
)
from trnsim.torch.importer.build import Build, Importer, Spec, Unlowered, spec_of

__all__ = ["IMPORTERS", "Build", "Importer", "Spec", "Unlowered", "spec_of"]

IMPORTERS: dict[str, Importer] = {
    **elementwise.IMPORTERS,
    **special_functions.IMPORTERS,
    **activations.IMPORTERS,
    **drawing.IMPORTERS,
    **distances.IMPORTERS,
    **reductions.IMPORTERS,
    **products.IMPORTERS,
    **attention.IMPORTERS,
    **experts.IMPORTERS,
    **convolution.IMPORTERS,
    **normalization.IMPORTERS,
    **movement.IMPORTERS,
    **indexing.IMPORTERS,
    **resampling.IMPORTERS,
    **sampling.IMPORTERS,
    **recurrent.IMPORTERS,
    **triangular.IMPORTERS,
    **sorting.IMPORTERS,
    **windows.IMPORTERS,
    **losses.IMPORTERS,
    **optimizers.IMPORTERS,
}
"""By the operator's plain name: "add" for aten::add.Tensor and for aten::add_.Tensor."""
