"""`neuronxcc.starfish.support.dtype`: casts between numpy arrays of Neuron's dtypes."""

from trnsim.nki.aliases.neuron_dtypes import finfo, is_float_type, sizeinbytes, static_cast

__all__ = ["finfo", "is_float_type", "sizeinbytes", "static_cast"]
