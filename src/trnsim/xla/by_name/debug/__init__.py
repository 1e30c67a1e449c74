"""`torch_xla.debug`."""

from trnsim.xla.absent_names import absent

__getattr__ = absent("torch_xla.debug", __name__)
