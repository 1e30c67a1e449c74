"""Random numbers: one generator per logical NeuronCore, apart from the CPU's.

The same seed gives the numbers that PyTorch's CPU generator gives; a NeuronCore would give others.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from trnsim.torch.cores import Device, core_index, visible_cores
from trnsim.torch.pytorch import DEVICE_TYPE

if TYPE_CHECKING:
    from collections.abc import Generator as Yields
    from collections.abc import Iterable

    from torch import Generator, Tensor

_OfHost: Any = torch.Generator
_generators: list[Generator] = []


def _all_generators() -> list[Generator]:
    """The generators of all cores, made when first asked for."""
    if not _generators:
        _generators.extend(_OfHost("cpu") for _ in visible_cores())
    return _generators


def generator(core: int) -> Generator:
    """The generator of neuron:`core`."""
    return _all_generators()[core_index(core)]


def rounding_generator(core: int) -> np.random.Generator:
    """The numbers by which neuron:`core` rounds; seeding the core's generator begins them anew.

    Where NEURON_RT_STOCHASTIC_ROUNDING_SEED is set they begin there, whatever the core's seed is.
    Source: torch-neuron-envvars.rst.
    """
    if core not in _rounding:
        given = os.environ.get("NEURON_RT_STOCHASTIC_ROUNDING_SEED")
        seed = generator(core).initial_seed() if given is None else int(given)
        _rounding[core] = np.random.default_rng([seed, core])
    return _rounding[core]


_rounding: dict[int, np.random.Generator] = {}


def _device_of(generator: Generator) -> torch.device:
    """The core that a generator of the device draws for."""
    del generator
    return torch.device(DEVICE_TYPE, 0)


DeviceGenerator: Any = type(_OfHost)(
    "DeviceGenerator", (_OfHost,), {"device": property(_device_of)}
)
"""A generator for the device: the host's, which says that it lives on a neuron core."""


def make_generator(device: Device = "cpu") -> Generator:
    """What `torch.Generator(device)` makes; for a neuron core one that PyTorch's C++ could not."""
    wanted = torch.device("cpu" if device is None else device)
    if wanted.type == DEVICE_TYPE:
        core_index(wanted)
        wanted, kind = torch.device("cpu"), DeviceGenerator
    else:
        kind = _OfHost
    made: Generator = kind(wanted)
    return made


def _make(kind: type, device: Device = "cpu") -> Generator:
    """The call of `torch.Generator`."""
    del kind
    return make_generator(device)


def _is_generator(kind: type, instance: object) -> bool:
    """Whether `instance` is a generator, whoever made it."""
    del kind
    return isinstance(instance, _OfHost)


def register() -> None:
    """Put a class in the place of `torch.Generator` of which every generator is an instance."""
    kind: Any = type(_OfHost)
    methods = {"__call__": _make, "__instancecheck__": _is_generator}
    stand_in: Any = type(kind)("GeneratorType", (kind,), methods)
    patched: Any = torch
    patched.Generator = stand_in("Generator", (_OfHost,), {"__doc__": _OfHost.__doc__})


@contextmanager
def drawing_from(core: int) -> Yields[None]:
    """Operators that take no generator draw from neuron:`core`'s instead of the CPU's."""
    own = generator(core)
    cpu_state = torch.default_generator.get_state()
    torch.default_generator.set_state(own.get_state())
    try:
        yield
    finally:
        own.set_state(torch.default_generator.get_state())
        torch.default_generator.set_state(cpu_state)


def manual_seed(seed: int) -> None:
    """Seed the current core's generator."""
    generator(0).manual_seed(seed)
    _rounding.pop(0, None)


def manual_seed_all(seed: int) -> None:
    """Seed every core's generator; `torch.manual_seed` calls it."""
    for own in _all_generators():
        own.manual_seed(seed)
    _rounding.clear()


def seed() -> None:
    """Seed the current core's generator with a number that differs from run to run."""
    generator(0).seed()
    _rounding.pop(0, None)


def seed_all() -> None:
    """Seed every core's generator with one number that differs from run to run."""
    manual_seed_all(generator(0).seed())


def initial_seed() -> int:
    """The seed that the current core's generator began with."""
    return generator(0).initial_seed()


def get_rng_state(device: Device = None) -> Tensor:
    """The state of a core's generator, a ByteTensor on the CPU."""
    return generator(core_index(device)).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of all cores' generators."""
    return [own.get_state() for own in _all_generators()]


def set_rng_state(new_state: Tensor, device: Device = None) -> None:
    """Put a state back that `get_rng_state` gave."""
    generator(core_index(device)).set_state(new_state.cpu())


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Put the states back that `get_rng_state_all` gave."""
    for own, state in zip(_all_generators(), new_states, strict=True):
        own.set_state(state.cpu())
