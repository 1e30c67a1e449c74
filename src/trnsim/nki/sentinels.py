"""Sentinel values of unwritten memory on AWS's simulator: NaN in floats, 4 in integers.

Source: nki_simulator.rst, Uninitialized Memory Detection.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trnsim.nki.notices import is_simulator
from trnsim.nki.tensor import NkiTensor

_INTEGER: Final = 4


def with_sentinels(tensor: NkiTensor) -> NkiTensor:
    """`tensor`, filled with sentinels if the kernel runs as on AWS's simulator.

    A tensor with an explicit address gets no sentinels: another tensor may lie there.
    """
    if not is_simulator():
        return tensor
    storage = tensor.storage
    if storage.data is None or storage.is_placed or storage.has_sentinels:
        return tensor
    value = np.nan if tensor.dtype.is_float else _INTEGER
    tensor.array[...] = np.array(value).astype(tensor.array.dtype)
    storage.has_sentinels = True
    return tensor
