"""`torch_xla.experimental`."""

from trnsim.xla.absent_names import absence_getter

__getattr__ = absence_getter("torch_xla.experimental", __name__)
