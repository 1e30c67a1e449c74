"""`torch_neuronx.xla_impl`."""

from __future__ import annotations
