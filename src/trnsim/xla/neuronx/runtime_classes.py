"""`torch.classes.neuron`: AWS's classes in C++, as classes of Python.

Sources: neuronx-distributed trace/nxd_model/nxd_model.py and its tests, aws-neuron-sdk
libtorch_demo/bert_neuronx/detect_instance.py and t5-inference-tutorial.ipynb, which use them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NoReturn

from torch import Tensor

from trnsim.device.device_core import visible_cores
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput, NotModelled
from trnsim.files import write
from trnsim.torch.traces.instances import LoadedProgram
from trnsim.torch.traces.placement import ONE, placement_of, require_numbers, turns
from trnsim.torch.traces.stored import StoredProgram
from trnsim.xla.neuronx.metaneff import MetaNeff

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
    """A program that ranks of this process run, each in a thread with a core of its own."""

    def __init__(
        self, neff: bytes, metaneff: bytes, local_ranks_size: int = 1, world_size: int = 1
    ) -> None:
        self._content = bytes(neff)
        self._metaneff = bytes(metaneff)
        self._ranks = local_ranks_size, world_size
        self._is_mocked = False
        self._resident: list[list[Tensor]] = []

    @cached_property
    def _instances(self) -> list[LoadedProgram]:
        """The program of each rank."""
        local, world = self._ranks
        if local != world:
            _refuse(
                f"torch.classes.neuron.SPMDModel of {local} of {world} ranks: ranks in other "
                "processes are not reached",
                "local_ranks_size equal to world_size",
            )
        program = StoredProgram.from_bytes(self._content)
        instances = [LoadedProgram(program) for _ in range(world)]
        for rank, instance in enumerate(instances):
            instance.join(rank, world)
            instance.place(placement_of(rank, 1))
        return instances

    def initialize(
        self,
        states: Sequence[Mapping[str, Tensor]],
        weights: Sequence[Mapping[str, Tensor]],
        start_rank: int = 0,
    ) -> None:
        """Give each rank its states and weights, by the names that they have in the model.

        Those on the rank's core stay the caller's: what is written to them is read, and new states
        are written there.

        Raises:
            BadInput: for another number of ranks, for tensors that lack one of the program's or
                have it in another form, or for bytes that no trace wrote.
        """
        local = self._ranks[0]
        if len(weights) != local or len(states) not in (0, local) or start_rank:
            raise BadInput(
                f"initialize with weights of {len(weights)} ranks and states of {len(states)} from "
                f"rank {start_rank} on; legal: {local} of each from rank 0 on, or no states",
                fix="one dictionary for each rank",
                source=_SOURCE,
                line=program_line(),
            )
        constants: dict[str, Tensor] = {}
        if self._metaneff:
            metaneff = MetaNeff()
            metaneff.ParseFromString(self._metaneff)
            constants = metaneff.constants
        kept = states or [{}] * local
        self._resident = [
            instance.resident({**constants, **weight, **state})
            for instance, weight, state in zip(self._instances, weights, kept, strict=True)
        ]

    def is_initialized(self) -> bool:
        """True once the ranks have their weights."""
        return self._is_mocked or bool(self._resident)

    def set_mock_initialized(self, mock: bool) -> None:
        """Let `is_initialized` say so without weights, while a caller of it is traced."""
        self._is_mocked = mock

    def forward(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs of rank 0, on the host, of inputs that all ranks get.

        Raises:
            BadInput: for inputs of other forms than were traced, and before `initialize`.
        """
        return [output.cpu() for output in self.forward_ranked([inputs] * self._ranks[0])[0]]

    __call__ = forward

    def forward_ranked(self, inputs: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        """The outputs of each rank, on its core, of its own inputs.

        Raises:
            BadInput: as `forward`, and for inputs of another number of ranks.
        """
        if len(inputs) != self._ranks[0] or not self._resident:
            raise BadInput(
                f"inputs of {len(inputs)} ranks for a program that "
                f"{'has no weights yet' if not self._resident else f'{self._ranks[0]} ranks run'}",
                fix="model.initialize(states, weights) before it; the inputs of each rank",
                source=_SOURCE,
                line=program_line(),
            )
        calls = list(zip(self._instances, self._resident, inputs, strict=True))
        if len(calls) == 1:
            instance, resident, tensors = calls[0]
            return [instance.run_resident(resident, list(tensors))]
        with ThreadPoolExecutor(len(calls)) as threads:
            runs = [threads.submit(call[0].run_resident, call[1], list(call[2])) for call in calls]
            return [run.result() for run in runs]

    forward_async = forward_ranked

    def forward_ranked_to_cpu(self, inputs: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        """The outputs of each rank, on the host."""
        return [[value.cpu() for value in rank] for rank in self.forward_ranked(inputs)]

    def save_neff(self, path: str) -> bool:
        """Write the program to a file."""
        write(Path(path), self._content)
        return True

    def save_metaneff(self, path: str) -> bool:
        """Write what the program's tensors are to a file."""
        write(Path(path), self._metaneff)
        return True


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
