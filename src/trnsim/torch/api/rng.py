"""Random numbers: a generator per logical NeuronCore, separate from the CPU's.

A seed gives the same numbers as PyTorch's CPU generator, unlike on a NeuronCore. A state is
sixteen bytes, as PyTorch requires of a device: see `rng_state`.
"""

from __future__ import annotations

from collections import OrderedDict, abc
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from trnsim.device import numerics
from trnsim.device.device_core import visible_cores
from trnsim.device.program_line import program_line
from trnsim.formatting import counted
from trnsim.torch import pytorch
from trnsim.torch.api import rng_state
from trnsim.torch.api.core_index import Device, core_index
from trnsim.torch.clients.imports import when_imported
from trnsim.torch.device_errors import BadState
from trnsim.torch.device_name import DEVICE_TYPE, is_neuron

if TYPE_CHECKING:
    from torch import Generator, Tensor

_HostGenerator: Any = torch.Generator
_generators: list[Generator] = []
"""The generator of each core; empty until one is used."""

_MOST_STATES: Final = 64
_host_states: OrderedDict[tuple[int, int], Tensor] = OrderedDict()
"""(Seed, number of words drawn) -> state of the host's generator, the latest last.

A recent state is restored without drawing its words again.
"""


class DeviceGenerator(_HostGenerator):  # type: ignore[misc]
    """A generator of the device: a host generator that reports a neuron device."""

    _counted_state: tuple[Tensor, int] | None = None
    """A state of the host's generator, and the number of words drawn between the last seed and that
    state; None until a state is read or set after a seed."""

    @property
    def device(self) -> torch.device:
        """neuron:0, even if it draws for another core."""
        return torch.device(DEVICE_TYPE, 0)

    def manual_seed(self, seed: int) -> Generator:
        """Seed the generator."""
        self._counted_state = None
        _HostGenerator.manual_seed(self, seed)
        return self

    def seed(self) -> int:
        """Seed the generator with a number that differs from run to run, and return it."""
        self._counted_state = None
        number: int = _HostGenerator.seed(self)
        return number

    def get_state(self) -> Tensor:
        """The state as sixteen bytes: see `rng_state`."""
        with pytorch.without_modes():
            host_state = rng_state.without_spare_normal(_HostGenerator.get_state(self))
            follower = _HostGenerator("cpu").manual_seed(self.initial_seed())
            start, words = self._counted_state or (follower.get_state(), 0)
            words += rng_state.words_between(start, host_state, follower)
            self._set_counted_state(host_state, words)
            return rng_state.pack_state(self.initial_seed(), words)

    def set_state(self, state: Tensor) -> Generator:
        """Restore a state from `get_state`."""
        with pytorch.without_modes():
            seed, words = rng_state.unpack_state(state)
            host_state = _host_states.get((seed, words))
            if host_state is None:
                _HostGenerator.manual_seed(self, seed)
                rng_state.advance(self, words)
                host_state = _HostGenerator.get_state(self)
            self._set_counted_state(host_state, words)
        return self

    def clone_state(self) -> Generator:
        """A generator of the device in the same state."""
        return _restored(_HostGenerator.get_state(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """The host's state, of which pickle and `copy.deepcopy` make a generator of the device."""
        return _restored, (_HostGenerator.get_state(self),)

    def _set_counted_state(self, host_state: Tensor, words: int) -> None:
        """Set the host's state, and remember it with the number of words drawn before it."""
        _HostGenerator.set_state(self, host_state)
        self._counted_state = host_state, words
        key = rng_state.unpack_state(rng_state.pack_state(self.initial_seed(), words))
        _host_states[key] = host_state
        _host_states.move_to_end(key)
        if len(_host_states) > _MOST_STATES:
            _host_states.popitem(last=False)


def _restored(host_state: Tensor) -> Generator:  # pickles have this name
    """A generator of the device with a state of the host's generator."""
    generator = DeviceGenerator("cpu")
    _HostGenerator.set_state(generator, host_state)
    return generator


def _all_generators() -> list[Generator]:
    """The generators of all cores, created at the first call."""
    if not _generators:
        _generators.extend(DeviceGenerator("cpu") for _ in visible_cores())
    return _generators


def generator(core: int) -> Generator:
    """The generator of neuron:`core`."""
    return _all_generators()[core_index(core)]


draw_listeners: Final[list[Callable[[int], None]]] = []
"""Functions that are called with the core before each operator that draws from its generator."""


def generator_to_draw_from(core: int) -> Generator:
    """The generator of neuron:`core`, for an operator that draws from it."""
    for prepare in draw_listeners:
        prepare(core)
    return generator(core)


def seed_core(core: int, seed: int) -> None:
    """Seed the generator of neuron:`core`, and the generator of its stochastic rounding."""
    generator(core).manual_seed(seed)
    _rounding_generators.pop(core, None)


def rounding_generator(core: int) -> np.random.Generator:
    """The generator of stochastic rounding on neuron:`core`, seeded with the core's generator.

    NEURON_RT_STOCHASTIC_ROUNDING_SEED, if set, is its seed instead.
    """
    if core not in _rounding_generators:
        _rounding_generators[core] = numerics.rounding_generator(
            core, generator(core).initial_seed()
        )
    return _rounding_generators[core]


_rounding_generators: dict[int, np.random.Generator] = {}


def make_generator(device: Device = "cpu") -> Generator:
    """`torch.Generator(device)`, which also creates generators of neuron cores."""
    torch_device = torch.device("cpu" if device is None else device)
    if is_neuron(torch_device):
        core_index(torch_device)
        torch_device, kind = torch.device("cpu"), DeviceGenerator
    else:
        kind = _HostGenerator
    generator: Generator = kind(torch_device)
    return generator


def register() -> None:
    """Replace `torch.Generator` by a class that also creates generators of the device.

    Generators of PyTorch's own class are instances of it too.
    """

    def call(_: Any, device: Device = "cpu") -> Generator:
        return make_generator(device)

    def instancecheck(_: Any, instance: object) -> bool:
        return isinstance(instance, _HostGenerator)

    kind: Any = type(_HostGenerator)
    methods = {"__call__": call, "__instancecheck__": instancecheck}
    metaclass: Any = type(kind)("GeneratorType", (kind,), methods)
    torch_module: Any = torch
    # pickle finds a class by its module and name.
    attributes = {"__doc__": _HostGenerator.__doc__, "__module__": "torch"}
    torch_module.Generator = metaclass("Generator", (_HostGenerator,), attributes)
    when_imported("torch.distributed.tensor._random", _patch_tracker)


def _patch_tracker(module: Any) -> None:
    """Let DTensor draw from a generator of the device in place of the generator that is passed.

    C++ passes it on as a plain generator of the host, whose state DTensor cannot read.
    """
    tracker: Any = module.OffsetBasedRNGTracker
    distribute_region = tracker._distribute_region  # noqa: SLF001  PyTorch's name

    @contextmanager
    def region(self: Any, spec: Any, generator: Generator | None = None) -> abc.Generator[None]:
        device_generator = None
        if generator is not None and spec.mesh.device_type == DEVICE_TYPE:
            device_generator = DeviceGenerator("cpu")
            _HostGenerator.set_state(device_generator, _HostGenerator.get_state(generator))
        with distribute_region(self, spec, device_generator or generator):
            yield
        if device_generator is not None:
            _HostGenerator.set_state(generator, _HostGenerator.get_state(device_generator))

    tracker._distribute_region = region  # noqa: SLF001  PyTorch's name


@contextmanager
def drawing_from(core: int) -> abc.Generator[None]:
    """Context in which operators without a generator draw from the generator of neuron:`core`."""
    core_generator = generator_to_draw_from(core)
    cpu_state = torch.default_generator.get_state()
    torch.default_generator.set_state(_HostGenerator.get_state(core_generator))
    try:
        yield
    finally:
        _HostGenerator.set_state(core_generator, torch.default_generator.get_state())
        torch.default_generator.set_state(cpu_state)


def manual_seed(seed: int) -> None:
    """Seed the current core's generator."""
    seed_core(0, seed)


def manual_seed_all(seed: int) -> None:
    """Seed every core's generator; `torch.manual_seed` calls it."""
    for core_generator in _all_generators():
        core_generator.manual_seed(seed)
    _rounding_generators.clear()


def seed() -> None:
    """Seed the current core's generator with a number that differs from run to run."""
    generator(0).seed()
    _rounding_generators.pop(0, None)


def seed_all() -> None:
    """Seed every core's generator with the same number, which differs from run to run."""
    manual_seed_all(generator(0).seed())


def initial_seed() -> int:
    """The seed of the current core's generator."""
    return generator(0).initial_seed()


def get_rng_state(device: Device = None) -> Tensor:
    """The state of a core's generator, a ByteTensor on the CPU."""
    return generator(core_index(device)).get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of all cores' generators."""
    return [core_generator.get_state() for core_generator in _all_generators()]


def set_rng_state(new_state: Tensor, device: Device = None) -> None:
    """Restore a state from `get_rng_state`.

    Raises:
        BadState: for anything else.
    """
    generator(core_index(device)).set_state(_on_host(new_state))


def _on_host(state: Any) -> Any:
    """A state on the CPU; other values as they are, for a generator to refuse."""
    return state.cpu() if isinstance(state, torch.Tensor) else state


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Restore the states from `get_rng_state_all`.

    Raises:
        BadState: for another number of states than of cores, or anything but states.
    """
    if not isinstance(new_states, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]  of a user
        raise BadState(
            f"{new_states!r:.60} is no list of states; legal: a state for each core",
            fix="give what torch.neuron.get_rng_state_all() gave",
            line=program_line(),
        )
    states, generators = list(new_states), _all_generators()
    if len(states) != len(generators):
        raise BadState(
            f"states of {counted(len(states), 'core')}; this process has {len(generators)}",
            fix="give a state for each core, or torch.neuron.set_rng_state(state, device) for one",
            line=program_line(),
        )
    for core_generator, state in zip(generators, states, strict=True):
        core_generator.set_state(_on_host(state))
