"""`torch_neuronx.testing`."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.lazy_names import serve

_TABLE: Final = dict.fromkeys(
    ("assert_close", "neuron_allclose", "custom_allclose", "logit_validation", "AllCloseSummary"),
    "trnsim.xla.neuronx.comparison",
)

__getattr__ = serve("torch_neuronx.testing", __name__, _TABLE)
