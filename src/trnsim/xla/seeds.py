"""The seeds of the device: a draw moves the running number, the end of a step moves the seed.

torch_xla keeps two 64-bit numbers for a device. A draw is seeded with the running number after

    running = 214013 running + 2531011.

The end of a step moves the seed, and restarts the running number from it:

    running = seed = 7012063 seed + 1012031.

So setting a seed again repeats its draws, if steps end at the same places. Here a draw seeds the
device's generator with the running number; the values drawn differ from torch_xla's.

Source: torch_xla 2.9.0, csrc/xla_graph_executor.cpp, `DeviceContextArena`; measured with
states of the generator.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import torch
from torch import Tensor

from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.torch.api import device as device_module
from trnsim.torch.api import rng
from trnsim.torch.api.core_index import Device, core_index
from trnsim.xla.cuts.cutting import cuts

_START: Final = 101
"""The seed of a program that sets none."""
_DRAW: Final = (214013, 2531011)
_STEP: Final = (7012063, 1012031)
"""Factor and term of the linear congruences of a draw and of a step's end."""
_BITS: Final = 64
_MASK: Final = (1 << _BITS) - 1
_STATE: Final = struct.Struct("<QQ")


class SeedRefused(BadInput, TypeError):
    """A seed that is no unsigned 64-bit number."""


class StateRefused(BadInput, RuntimeError):
    """A tensor that is no state of the device's seeds."""


class Seeds:
    """The seed and the running number of each core."""

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[int, int]] = {}

    def begin(self) -> None:
        """Let every draw take its seed from here; a second call does nothing."""
        if self._draw in rng.draw_listeners:
            return
        rng.draw_listeners.append(self._draw)
        # PyTorch's checkpoint keeps a device's state by these names.
        patched: Any = device_module
        patched.get_rng_state, patched.set_rng_state = self.pack, self.unpack

    def running_number(self, device: Device = None) -> int:
        """The running number, which the next draw moves."""
        return self._numbers_of(core_index(device))[1]

    def set(self, seed: int, device: Device = None) -> None:
        """Set both numbers.

        Raises:
            SeedRefused: for a number that is no unsigned 64-bit number.
        """
        is_whole = isinstance(seed, int)  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
        if not is_whole or not 0 <= seed <= _MASK:
            raise SeedRefused(
                f"xm.set_rng_state({seed!r}); legal: 0 to 2**{_BITS} - 1",
                fix=f"take seed % 2**{_BITS}",
                line=program_line(),
            )
        core = core_index(device)
        self._numbers[core] = seed, seed
        rng.seed_core(core, seed)
        cuts.recorder.reseed()

    def end_step(self) -> None:
        """Move the seeds of all cores at the end of a step."""
        for core in {0, *self._numbers}:
            seed = _next_number(self._numbers_of(core)[0], _STEP)
            self._numbers[core] = seed, seed

    def pack(self, device: Device = None) -> Tensor:
        """Both numbers as sixteen bytes on the host."""
        content = bytearray(_STATE.pack(*self._numbers_of(core_index(device))))
        return torch.frombuffer(content, dtype=torch.uint8)

    def unpack(self, state: Tensor, device: Device = None) -> None:
        """Restore the numbers that `pack` returned.

        Raises:
            StateRefused: for anything but sixteen bytes.
        """
        is_tensor = isinstance(state, Tensor)  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
        if not is_tensor or state.dtype is not torch.uint8 or state.numel() != _STATE.size:
            actual = f"{state.numel()} elements of {state.dtype}" if is_tensor else repr(state)
            raise StateRefused(
                f"a state of {actual}; legal: a tensor of {_STATE.size} bytes",
                fix="give what get_rng_state() gave",
                line=program_line(),
            )
        seed, running_number = _STATE.unpack(state.cpu().numpy().tobytes())
        self._numbers[core_index(device)] = seed, running_number
        cuts.recorder.reseed()

    def _numbers_of(self, core: int) -> tuple[int, int]:
        return self._numbers.get(core, (_START, _START))

    def _draw(self, core: int) -> None:
        """Move the running number of a core, and seed its generator with it."""
        seed, running_number = self._numbers_of(core)
        running_number = _next_number(running_number, _DRAW)
        self._numbers[core] = seed, running_number
        rng.generator(core).manual_seed(running_number)


def _next_number(number: int, step: tuple[int, int]) -> int:
    factor, term = step
    return (number * factor + term) & _MASK


seeds: Final = Seeds()
"""The seeds of this process."""
