"""`torch.classes.neuron`: AWS's classes in C++, as classes of Python.

Sources: neuronx-distributed trace/nxd_model/nxd_model.py and its tests, aws-neuron-sdk
libtorch_demo/bert_neuronx/detect_instance.py and t5-inference-tutorial.ipynb, which use them.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, Final, NoReturn

import torch
from torch import Tensor

from trnsim.device.device_core import visible_cores
from trnsim.device.program_line import program_line
from trnsim.errors import NotModelled
from trnsim.torch.traces.placement import DEFAULT, default_placement, placement_of, require_numbers
from trnsim.xla.neuronx.scripted_ranks import RankModel

_SOURCE: Final = "neuronx-distributed trace/nxd_model/nxd_model.py"


class Runtime:
    """The runtime of this process."""

    def initialize(self) -> None:
        """Do nothing: the device needs no initialization."""

    def get_visible_nc_count(self) -> int:
        """The number of cores of this process."""
        return len(visible_cores())

    get_nc_count = get_visible_nc_count

    def set_default_neuron_cores(self, start_nc: int = DEFAULT, nc_count: int = DEFAULT) -> None:
        """Load later modules to the `nc_count` cores that begin with core `start_nc`."""
        require_numbers(start_nc=start_nc, nc_count=nc_count)
        placement_of(max(start_nc, 0), nc_count)  # refuses cores that are not there
        default_placement.requested = (start_nc, nc_count)

    def unsafe_close(self) -> None:
        """Load later modules to all cores in turn."""
        default_placement.requested = None


class SPMDModel:
    """Makes the program that ranks of this process run, each in a thread with a core of its own."""

    def __new__(
        cls, neff: bytes, metaneff: bytes, local_ranks_size: int = 1, world_size: int = 1
    ) -> Any:
        """The object, which TorchScript takes as a part of a module."""
        with warnings.catch_warnings():
            # PyTorch has deprecated TorchScript, in which modules of such objects are saved.
            warnings.simplefilter("ignore", DeprecationWarning)
            make = _rank_class()
        return make(_bytes(neff), _bytes(metaneff), local_ranks_size, world_size)


@cache
def _rank_class() -> Any:
    """The class, compiled."""
    return torch.jit.script(RankModel)


def _bytes(content: bytes) -> Tensor:
    return (
        torch.frombuffer(bytearray(content), dtype=torch.uint8)
        if content
        else torch.empty(0, dtype=torch.uint8, device="cpu")
    )


class LayoutTransformation:
    """A transformation of weights for the chip's memory, which is not needed here."""

    def __init__(self, neff: bytes, metaneff: Any = b"", local_ranks_size: int = 1) -> None:
        del neff, metaneff, local_ranks_size

    def forward(self, checkpoint: Any, is_on_host: bool = False) -> NoReturn:
        """Nothing.

        Raises:
            NotModelled: always.
        """
        del checkpoint, is_on_host
        raise NotModelled(
            "torch.classes.neuron.LayoutTransformation.forward: weights keep their layout here",
            fix="trace without priority_model_idx, or give the weights as they are",
            source=_SOURCE,
            line=program_line(),
        )
