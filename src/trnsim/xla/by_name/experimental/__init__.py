"""`torch_xla.experimental`."""

from trnsim.xla.absent_names import absent

__getattr__ = absent("torch_xla.experimental", __name__)
