"""`torch_xla.core`."""

from trnsim.xla.absent_names import absence_getter

__getattr__ = absence_getter("torch_xla.core", __name__)
