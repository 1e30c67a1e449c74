from trnsim.estimate.fused import fuse_operators
from trnsim.workload.operators import Elementwise, Product
from trnsim.workload.summary import CAST, PartSummary


def test_biases_batch_norms_and_casts_are_done_on_the_way():
    block = PartSummary(
        "layer",
        2,
        (Product("convolution", 4, 9, 8, 1, 16),),
        tuple(
            Elementwise(name, 10)
            for name in ("convolution", "native_batch_norm", CAST, "relu", "native_layer_norm")
        ),
        resident_bytes=5,
    )
    found = fuse_operators(block)
    assert [one.name for one in found.elementwise] == ["relu", "native_layer_norm"]
    assert (found.products, found.times, found.resident_bytes) == (block.products, 2, 5)
