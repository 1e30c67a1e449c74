"""`torch.classes.neuron`: AWS's classes in C++, as classes of Python.

Sources: neuronx-distributed trace/nxd_model/nxd_model.py and its tests, aws-neuron-sdk
libtorch_demo/bert_neuronx/detect_instance.py and t5-inference-tutorial.ipynb, which use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, NoReturn

from torch import Tensor

from trnsim.device.device_core import visible_cores
from trnsim.device.program_line import program_line
from trnsim.errors import NotModelled
from trnsim.torch.traces.instances import LoadedProgram
from trnsim.torch.traces.placement import ONE, placement_of, require_numbers, turns
from trnsim.torch.traces.stored import StoredProgram

_SOURCE: Final = "neuronx-distributed trace/nxd_model/nxd_model.py"


class Runtime:
    """The runtime of this process."""

    def initialize(self) -> None:
        """Do nothing: the device needs no initialization."""

    def get_visible_nc_count(self) -> int:
        """The number of cores of this process."""
        return len(visible_cores())

    get_nc_count = get_visible_nc_count

    def set_default_neuron_cores(self, start_nc: int = ONE, nc_count: int = ONE) -> None:
        """Load later modules to the `nc_count` cores that begin with core `start_nc`."""
        require_numbers(start_nc=start_nc, nc_count=nc_count)
        placement_of(max(start_nc, 0), nc_count)  # refuses cores that are not there
        turns.asked = (start_nc, nc_count)

    def unsafe_close(self) -> None:
        """Load later modules to all cores in turn."""
        turns.asked = None


class SPMDModel:
    """A program that ranks of this process run: one rank here."""

    def __init__(
        self, neff: bytes, metaneff: Any, local_ranks_size: int = 1, world_size: int = 1
    ) -> None:
        del metaneff
        self._content = bytes(neff)
        self._ranks = local_ranks_size, world_size
        self._weights: list[Tensor] = []

    @cached_property
    def _instance(self) -> LoadedProgram:
        if self._ranks != (1, 1):
            _refuse(
                f"torch.classes.neuron.SPMDModel of {self._ranks[0]} of {self._ranks[1]} ranks: "
                "ranks are processes of their own here",
                "torchrun, with one rank a process",
            )
        return LoadedProgram(StoredProgram.from_bytes(self._content))

    def initialize(self, states: Sequence[Any], weights: Sequence[Any]) -> None:
        """Give the program its weights, those of each rank in a list."""
        del states
        first = list(weights[0]) if weights else []
        self._weights = [tensor for tensor in first if isinstance(tensor, Tensor)]

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of the one rank.

        Raises:
            BadInput: for bytes that no `torch_neuronx.trace` wrote.
        """
        return self._instance.run(self._weights, list(inputs))

    def forward_ranked(self, inputs: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        """The outputs of each rank."""
        return [self.forward(inputs[0])]

    forward_ranked_to_cpu = forward
    forward_async = forward_ranked
    __call__ = forward


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
        _refuse(
            "torch.classes.neuron.LayoutTransformation.forward: weights keep their layout here",
            "trace without priority_model_idx, or give the weights as they are",
        )


def _refuse(reason: str, fix: str) -> NoReturn:
    raise NotModelled(reason, fix=fix, source=_SOURCE, line=program_line())
