"""The errors of the device: trnsim's own, and PyTorch's at the same time.

Programs written for other devices catch `torch.OutOfMemoryError` or `RuntimeError`. Each class here
is both, so that they go on working.
"""

from __future__ import annotations

import torch

from trnsim.errors import BadInput, NotModelled, OutOfMemory


class OutOfDeviceMemory(OutOfMemory, torch.OutOfMemoryError):
    """An allocation does not fit in the HBM of a NeuronCore."""


class MixedDevices(BadInput, RuntimeError):
    """Operands of one operator are on different devices."""


class OperatorNotModelled(NotModelled, NotImplementedError):
    """An operator, or a form of it, that the device does not have yet."""


class PeerLost(BadInput, RuntimeError):
    """A process of a group has stopped, so that a collective cannot end."""


class CollectiveRefused(BadInput, RuntimeError):
    """A collective that is not supported as requested."""


class CollectiveBroken(BadInput, RuntimeError):
    """A collective was interrupted although every process of its group is alive."""


class BadState(BadInput, RuntimeError):
    """A value that is not a state of a device's generator."""


class DtypeRefused(BadInput, RuntimeError):
    """A dtype that no NeuronCore has, refused under the policy `chip`.

    It is no TypeError, since `x * 1j` would turn that into Python's "unsupported operand".
    """
