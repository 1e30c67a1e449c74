"""`nki.dtype`: the dtypes of `nki.language` under a second module name."""

from trnsim.dtypes import BY_NAME, Dtype

globals().update(BY_NAME)

__all__ = ["BY_NAME", "Dtype"]
