"""A program of several ranks in one process: each rank is a thread with a core of its own.

`torch.ops.neuron.ranks_*` find a program by the storage of its bytes, which a module shares with
TorchScript's copies of it.

Source: neuronx-distributed trace/nxd_model/nxd_model.py and trace/spmd.py, which use AWS's class.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Final

import torch
from torch import Tensor

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput, NotModelled
from trnsim.torch.traces.communicators import Communicator
from trnsim.torch.traces.instances import LoadedProgram, storage_address
from trnsim.torch.traces.metaneff import MetaNeff, get_torch_dtype
from trnsim.torch.traces.placement import placement_of
from trnsim.torch.traces.stored import StoredProgram

_SOURCE: Final = "neuronx-distributed trace/nxd_model/nxd_model.py"


class RankPrograms:
    """The programs of all ranks.

    Attributes:
        owner: the bytes of the program.
        is_mocked: True while a caller is traced without weights: outputs are zeros.
    """

    def __init__(self, program: Tensor, metaneff: Tensor, local: int, world: int) -> None:
        self.owner = program
        self.is_mocked = False
        self._metaneff = bytes(metaneff.numpy())
        self._ranks = local, world
        self._resident: list[list[Tensor]] = []
        self._lock = threading.Lock()
        """Held by a run, so that its ranks do not exchange tensors with ranks of another run."""

    @cached_property
    def _tensors(self) -> MetaNeff:
        """The kinds of the program's tensors; none for a program without them."""
        metaneff = MetaNeff()
        if self._metaneff:
            metaneff.ParseFromString(self._metaneff)
        return metaneff

    @cached_property
    def _instances(self) -> list[LoadedProgram]:
        """The program of each rank."""
        local, world = self._ranks
        if local != world:
            raise NotModelled(
                f"torch.classes.neuron.SPMDModel of {local} of {world} ranks: ranks in other "
                "processes are not reached",
                fix="local_ranks_size equal to world_size",
                source=_SOURCE,
                line=program_line(),
            )
        program = StoredProgram.from_bytes(bytes(self.owner.numpy()))
        instances = [LoadedProgram(program) for _ in range(world)]
        exchanges = Communicator(world)  # a model of its own: other models may run at the same time
        for rank, instance in enumerate(instances):
            instance.join_ranks(rank, world, exchanges)
            instance.place(placement_of(rank, 1))
        return instances

    def initialize(
        self,
        states: Sequence[Mapping[str, Tensor]],
        weights: Sequence[Mapping[str, Tensor]],
        start_rank: int,
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
        own_states = states or [{}] * local
        self._resident = [
            instance.resident({**self._tensors.constants, **weight, **state})
            for instance, weight, state in zip(self._instances, weights, own_states, strict=True)
        ]

    def is_initialized(self) -> bool:
        """True once the ranks have their weights."""
        return self.is_mocked or bool(self._resident)

    def run(self, inputs: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        """The outputs of each rank, on its core, of its own inputs.

        Raises:
            BadInput: for inputs of other forms than were traced, or of another number of ranks, and
                before `initialize`.
        """
        if self.is_mocked:
            return [self._zeros()] * self._ranks[0]
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
            return [instance.run_resident(resident, tensors)]
        with self._lock, ThreadPoolExecutor(len(calls)) as threads:
            runs = [
                threads.submit(instance.run_resident, resident, tensors)
                for instance, resident, tensors in calls
            ]
            return [run.result() for run in runs]

    def _zeros(self) -> list[Tensor]:
        """Zeros of the shapes and dtypes of a rank's outputs."""
        meta = self._tensors
        return [
            torch.zeros(tensor.shape, dtype=get_torch_dtype(tensor.data_type), device="cpu")
            for place, tensor in enumerate(meta.output_tensors)
            if place not in meta.output_aliases_to
        ]


_programs: Final[dict[int, RankPrograms]] = {}


def ranks_of(program: Tensor, metaneff: Tensor, local: int, world: int) -> RankPrograms:
    """The programs of the ranks whose bytes are in the storage of `program`."""
    address = storage_address(program)
    if address not in _programs:
        _programs[address] = RankPrograms(program, metaneff, local, world)
    return _programs[address]
