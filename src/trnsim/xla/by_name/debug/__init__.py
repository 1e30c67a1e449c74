"""`torch_xla.debug`."""

from trnsim.xla.absent_names import absence_getter

__getattr__ = absence_getter("torch_xla.debug", __name__)
