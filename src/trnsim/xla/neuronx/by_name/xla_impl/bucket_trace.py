"""`torch_neuronx.xla_impl.bucket_trace`."""

from __future__ import annotations

from typing import Final

from trnsim.xla.neuronx.lazy_names import serve

_BUCKETS: Final = "trnsim.xla.neuronx.buckets"

__getattr__ = serve(
    "torch_neuronx.xla_impl.bucket_trace",
    __name__,
    {
        "BucketModelConfig": _BUCKETS,
        "bucket_model_trace": _BUCKETS,
        "create_bucket_model": "trnsim.xla.neuronx.artifacts",
    },
)
