"""`torch_xla.core`."""

from trnsim.xla.absent_names import absent

__getattr__ = absent("torch_xla.core", __name__)
