"""`torch_neuronx.xla_impl.custom_call_targets`: names of calls of AWS's compiler.

Source: neuronx-distributed-inference models/layer_boundary_marker.py.
"""

from __future__ import annotations

from typing import Final

AwsNeuronModuleMarkerStartForward: Final = "AwsNeuronModuleMarkerStart-Forward"
AwsNeuronModuleMarkerEndForward: Final = "AwsNeuronModuleMarkerEnd-Forward"
