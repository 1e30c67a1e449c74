"""The class behind `torch.classes.neuron.SPMDModel`, which TorchScript compiles and saves."""

import torch
from torch import Tensor

__all__ = ["RankModel"]


class RankModel:
    """A program that ranks of this process run.

    TorchScript compiles this class from its text, so it uses only forms of TorchScript.

    Attributes:
        neff: the stored program.
        metaneff: the description of its tensors (`trnsim.torch.traces.metaneff`).
        local_ranks_size: number of ranks of this process.
        world_size: number of all ranks.
    """

    def __init__(self, neff: Tensor, metaneff: Tensor, local: int, world: int) -> None:
        self.neff = neff
        self.metaneff = metaneff
        self.local_ranks_size = local
        self.world_size = world

    def initialize(
        self, states: list[dict[str, Tensor]], weights: list[dict[str, Tensor]], start_rank: int = 0
    ) -> None:
        """Give each rank its states and weights, by the names that they have in the model."""
        torch.ops.neuron.ranks_initialize(
            self.neff,
            self.metaneff,
            self.local_ranks_size,
            self.world_size,
            states,
            weights,
            start_rank,
        )

    def is_initialized(self) -> bool:
        """True once the ranks have their weights."""
        return torch.ops.neuron.ranks_are_initialized(  # type: ignore[no-any-return]
            self.neff, self.metaneff, self.local_ranks_size, self.world_size
        )

    def set_mock_initialized(self, mock: bool) -> None:
        """Let `is_initialized` return `mock` without weights, while a caller of it is traced."""
        torch.ops.neuron.ranks_mock(
            self.neff, self.metaneff, self.local_ranks_size, self.world_size, mock
        )

    def forward(self, inputs: list[Tensor]) -> list[Tensor]:
        """The outputs of rank 0, on the host, of inputs that all ranks get."""
        return torch.ops.neuron.ranks_forward(  # type: ignore[no-any-return]
            self.neff, self.metaneff, self.local_ranks_size, self.world_size, inputs
        )

    def forward_ranked(self, inputs: list[list[Tensor]]) -> list[list[Tensor]]:
        """The outputs of each rank, on its core, of its own inputs."""
        return torch.ops.neuron.ranks_forward_each(  # type: ignore[no-any-return]
            self.neff, self.metaneff, self.local_ranks_size, self.world_size, inputs
        )

    def forward_async(self, inputs: list[list[Tensor]]) -> list[list[Tensor]]:
        """The outputs of each rank; they are complete at return, as nothing runs asynchronously."""
        return self.forward_ranked(inputs)

    def forward_ranked_to_cpu(self, inputs: list[list[Tensor]]) -> list[list[Tensor]]:
        """The outputs of each rank, on the host."""
        return [[output.cpu() for output in rank] for rank in self.forward_ranked(inputs)]

    def save_neff(self, path: str) -> bool:
        """Write the program to a file."""
        return torch.ops.neuron.ranks_write(self.neff, path)  # type: ignore[no-any-return]

    def save_metaneff(self, path: str) -> bool:
        """Write the description of the program's tensors to a file."""
        return torch.ops.neuron.ranks_write(self.metaneff, path)  # type: ignore[no-any-return]
