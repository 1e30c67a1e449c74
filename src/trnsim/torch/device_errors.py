"""The errors of the device: trnsim's own, and PyTorch's at the same time.

Programs written for other devices catch `torch.OutOfMemoryError` or `RuntimeError`. Each class here
is both, so that they go on working.
"""

from __future__ import annotations

import torch

from trnsim.errors import BadInput, NotModelled, OutOfMemory


class OutOfDeviceMemory(OutOfMemory, torch.OutOfMemoryError):
    """The HBM of a NeuronCore has no room for it."""


class MixedDevices(BadInput, RuntimeError):
    """Tensors on different devices met in one operator."""


class OperatorNotModelled(NotModelled, NotImplementedError):
    """An operator, or a form of it, that the device does not have yet."""


class PeerLost(BadInput, RuntimeError):
    """A process of a group that stopped, so that a collective cannot end."""


class CollectiveRefused(BadInput, RuntimeError):
    """A collective that no process can do as it was asked."""


class CollectiveBroken(BadInput, RuntimeError):
    """A collective that broke off, though every process of its group is alive."""


class BadState(BadInput, RuntimeError):
    """What is no state of a generator of the device."""


class DtypeRefused(BadInput, RuntimeError):
    """A dtype that no NeuronCore has, under the policy that refuses it.

    No TypeError: `x * 1j` would turn that into Python's "unsupported operand".
    """
