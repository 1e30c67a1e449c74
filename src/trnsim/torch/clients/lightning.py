"""PyTorch Lightning on the device, by `Trainer(accelerator="neuron")` and by "auto".

Lightning does not know the device: with `devices=1` it would silently train on the CPU, and mixed
precision would cast for CUDA. When a program imports it, as `lightning.pytorch` or under its older
name, an accelerator and two strategies are registered there. `lightning.fabric` alone is not
patched.
"""
# ruff: noqa: SLF001  Lightning makes its choices in private methods of a class

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import torch

from trnsim.device.device_core import local_processes
from trnsim.device.program_line import program_line
from trnsim.errors import BadInput
from trnsim.torch.api.core_index import core_index
from trnsim.torch.api.memory import memory_stats
from trnsim.torch.clients.plugin import Plugin, replace
from trnsim.torch.device_name import DEVICE_TYPE, is_neuron

_CONNECTOR_MODULE: Final = ".trainer.connectors.accelerator_connector"
_DESCRIPTION: Final = "AWS NeuronCores, emulated"


def apply(connector: ModuleType) -> None:
    """Register the accelerator and the strategies with Lightning.

    `connector` is the module with the class by which a Trainer chooses both.
    """
    package = connector.__name__.removesuffix(_CONNECTOR_MODULE)
    accelerators: Any = import_module(f"{package}.accelerators")
    strategies: Any = import_module(f"{package}.strategies")
    precision: Any = import_module(f"{package}.plugins.precision")
    accelerator = _mixed_class(connector, NeuronAccelerator, accelerators.Accelerator)
    accelerators.AcceleratorRegistry.register(DEVICE_TYPE, accelerator, description=_DESCRIPTION)
    single_strategy = _mixed_class(connector, SingleNeuronStrategy, strategies.SingleDeviceStrategy)
    parallel_strategy = _mixed_class(connector, NeuronDDPStrategy, strategies.DDPStrategy)
    registry = strategies.StrategyRegistry
    for strategy in (single_strategy, parallel_strategy):
        registry.register(strategy.strategy_name, strategy)
    module: Any = connector
    patched_class = _mixed_class(connector, Choice, module._AcceleratorConnector)
    patched_class.lightning = Lightning(
        single_strategy,
        parallel_strategy,
        registry,
        strategies.DDPStrategy,
        precision.MixedPrecision,
    )
    replace(connector, "_AcceleratorConnector", patched_class)


def _mixed_class(connector: ModuleType, own_class: type, lightning_class: type) -> Any:
    """A class that joins a class of this file and a class of Lightning.

    Processes that are spawned can import it from `connector`.
    """
    namespace = {"__doc__": own_class.__doc__, "__module__": connector.__name__}
    joint_class = type(own_class.__name__, (own_class, lightning_class), namespace)
    setattr(connector, own_class.__name__, joint_class)
    return joint_class


@dataclass(frozen=True)
class Lightning:
    """The classes of the Lightning package that is patched.

    Attributes:
        single_strategy: the strategy for one core.
        parallel_strategy: the strategy with a process for each core.
        registry: its strategies by name.
        ddp: its own DistributedDataParallel strategy.
        mixed_precision: its plugin for autocast.
    """

    single_strategy: Any
    parallel_strategy: Any
    registry: Any
    ddp: Any
    mixed_precision: Any


class NeuronAccelerator:
    """Lightning's interface of an accelerator, on neuron devices."""

    def setup_device(self, device: torch.device) -> None:
        """Check that the device is a neuron device; there is nothing to set up.

        Raises:
            BadInput: for any other device.
        """
        if not is_neuron(device):
            raise BadInput(
                f"Lightning would run accelerator='neuron' on {device}",
                fix="leave strategy='auto', or choose one whose root_device is a neuron device",
                line=program_line(),
            )

    def setup(self, trainer: Any) -> None:
        """Do nothing: the device needs no preparation for a fit."""
        del trainer

    def teardown(self) -> None:
        """Do nothing: nothing was set up."""

    def get_device_stats(self, device: str | torch.device) -> dict[str, Any]:
        """Bytes of HBM in use, for the callback DeviceStatsMonitor."""
        return dict(memory_stats(device))

    @staticmethod
    def parse_devices(devices: int | str | list[int]) -> list[int]:
        """Indices of the logical cores of ``devices=``: a number of them, -1 for all, or a list.

        Raises:
            BadInput: for a text of other content.
        """
        if isinstance(devices, list):
            return devices
        try:
            if isinstance(devices, str) and "," in devices:
                return [int(part) for part in devices.split(",") if part.strip()]
            number = int(devices)
        except ValueError:
            raise BadInput(
                f"Trainer(devices={devices!r}); legal: a number of NeuronCores, -1 for all, or "
                'their indices, as [0, 1] or "0,1"',
                fix="devices=1",
                line=program_line(),
            ) from None
        return list(range(local_processes() if number < 0 else number))

    @staticmethod
    def get_parallel_devices(devices: list[int]) -> list[torch.device]:
        """A neuron device for each process; each has its own core, its neuron:0.

        A single device may have another index, where NEURON_RT_VISIBLE_CORES gives this process
        more cores.
        """
        if len(devices) == 1:
            return [torch.device(DEVICE_TYPE, core_index(devices[0]))]
        return [torch.device(DEVICE_TYPE, 0) for _ in devices]

    @staticmethod
    def auto_device_count() -> int:
        """The logical cores of all processes of this machine, the same number in each of them."""
        return local_processes()

    @staticmethod
    def is_available() -> bool:
        """True: the device needs no hardware."""
        return True

    @staticmethod
    def name() -> str:
        """The name for ``accelerator=``."""
        return DEVICE_TYPE


class SingleNeuronStrategy:
    """One process on one NeuronCore."""

    strategy_name = "neuron_single"

    def __init__(self, device: str | torch.device = f"{DEVICE_TYPE}:0", **options: Any) -> None:
        base: Any = super()
        base.__init__(device=torch.device(device), **options)


class NeuronDDPStrategy:
    """DistributedDataParallel over processes with a NeuronCore each."""

    strategy_name = "neuron_ddp"

    def __init__(self, **options: Any) -> None:
        base: Any = super()
        base.__init__(**({"process_group_backend": DEVICE_TYPE} | options))

    def determine_ddp_device_ids(self) -> None:
        """Return None: the module is on its device already; ids would make Lightning use CUDA."""


class Choice:
    """A Trainer's choices: the device before the CPU, and strategies for the device."""

    lightning: Lightning

    def _choose_auto_accelerator(self) -> str:
        """The accelerator of ``accelerator="auto"``."""
        base: Any = super()
        accelerator: str = base._choose_auto_accelerator()
        return DEVICE_TYPE if accelerator == "cpu" else accelerator

    def _init_strategy(self) -> None:
        """Choose the strategy: the device's strategy replaces a default or a named strategy."""
        connector: Any = self
        if isinstance(connector.accelerator, NeuronAccelerator):
            connector._strategy_flag = self._neuron_strategy(
                connector._strategy_flag, connector._parallel_devices[0]
            )
        base: Any = super()
        base._init_strategy()

    def _neuron_strategy(self, flag: Any, device: torch.device) -> Any:
        lightning = self.lightning
        if isinstance(flag, str):
            entry = lightning.registry[flag]
            options = entry["init_params"]
            return (
                lightning.parallel_strategy(**options)
                if entry["strategy"] is lightning.ddp
                else flag
            )
        is_default = flag.strategy_name == "single_device" and flag.root_device.type == "cpu"
        return lightning.single_strategy(device) if is_default else flag

    def _check_and_init_precision(self) -> Any:
        """The precision plugin; for mixed precision one that casts on the device, not on CUDA."""
        connector: Any = self
        base: Any = super()
        precision_plugin = base._check_and_init_precision()
        plugin = self.lightning.mixed_precision
        is_for_cuda = isinstance(precision_plugin, plugin) and precision_plugin.device == "cuda"
        if is_for_cuda and isinstance(connector.accelerator, NeuronAccelerator):
            return plugin(precision_plugin.precision, DEVICE_TYPE)
        return precision_plugin


def _plugin(package: str, root: str) -> Plugin:
    """The plugin for one of the two packages as which Lightning is published."""
    return Plugin(
        package=package,
        tested_releases=("2.6",),
        module=f"{root}{_CONNECTOR_MODULE}",
        replaced_names=(
            "_AcceleratorConnector._choose_auto_accelerator",
            "_AcceleratorConnector._init_strategy",
            "_AcceleratorConnector._check_and_init_precision",
        ),
        reason="it knows no accelerator 'neuron', and accelerator='auto' trains on the CPU",
        source="lightning 2.6.6 pytorch/trainer/connectors/accelerator_connector.py",
        apply=apply,
    )


PLUGINS: Final = (
    _plugin("lightning", "lightning.pytorch"),
    _plugin("pytorch-lightning", "pytorch_lightning"),
)
