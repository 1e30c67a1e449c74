"""`neuronxcc.nki.typing`: the annotations of `nki.typing`."""

from trnsim.nki.typing import NkiTensor, mutable_tensor, scalar, tensor

__all__ = ["NkiTensor", "mutable_tensor", "scalar", "tensor"]
