"""Decompositions without operators of oneDNN, which only the CPU has."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def without_onednn() -> Generator[None]:
    """A context in which PyTorch decomposes an LSTM into operators of all devices.

    Source: PyTorch, torch/_decomp/decompositions.py, select_one_layer_lstm_function.
    """
    core: Any = import_module("torch._C")  # torch.backends.mkldnn.flags warns about Intel's GPUs
    is_enabled: bool = core._get_mkldnn_enabled()  # noqa: SLF001
    core._set_mkldnn_enabled(False)  # noqa: SLF001
    try:
        yield
    finally:
        core._set_mkldnn_enabled(is_enabled)  # noqa: SLF001
