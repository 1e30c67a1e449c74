"""`torch_xla.utils`."""

from trnsim.xla.absent_names import absence_getter

__getattr__ = absence_getter("torch_xla.utils", __name__)
