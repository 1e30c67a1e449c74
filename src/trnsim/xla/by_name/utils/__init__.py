"""`torch_xla.utils`."""

from trnsim.xla.absent_names import absent

__getattr__ = absent("torch_xla.utils", __name__)
