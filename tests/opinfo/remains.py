"""What remains of PyTorch's table, with the reason of each; a pass that is not expected fails."""

SPARSE = "a NeuronCore has dense tensors alone, and the host computes none for it"
ANOTHER_POLICY = "PyTorch chooses how precisely to accumulate by the device's name: not as on a CPU"
LAID_OUT = (
    "gradients have the strides of their operands, which PyTorch promises of the form of attention "
    "for devices; the CPU's form has others"
)
NOT_IN_PLACE = "the solution is dense; the CPU's is a part of the right-hand side's memory"

REMAINS = {
    "forward": {
        "sparse.sampled_addmm": SPARSE,
        "sparse.mm.reduce": SPARSE,
        "to_sparse": SPARSE,
        "linalg.lstsq": NOT_IN_PLACE,
        "linalg.lstsq.grad_oriented": NOT_IN_PLACE,
        "mode": "PyTorch refuses `out=` by the device's name",
        "nn.functional.linear_cross_entropy.chunked": ANOTHER_POLICY,
        "nn.functional.linear_cross_entropy.chunked_none": ANOTHER_POLICY,
    },
    "gradient": {
        "nn.functional.scaled_dot_product_attention": LAID_OUT,
        "sparse.sampled_addmm": SPARSE,
        "sparse.mm.reduce": SPARSE,
        "to_sparse": SPARSE,
        "nn.functional.linear_cross_entropy.chunked": ANOTHER_POLICY,
        "nn.functional.linear_cross_entropy.chunked_none": ANOTHER_POLICY,
    },
    "compiled": {
        "tensor_split": "PyTorch takes the places where to split on the CPU alone",
        "sparse.sampled_addmm": SPARSE,
        "sparse.mm.reduce": SPARSE,
        "to_sparse": SPARSE,
    },
    "chip": {},
}
"""By kind of check and entry: why it differs."""


def surprises(outcomes):
    """Failures that are not listed, and listed entries that pass, in words."""
    found = []
    for kind, listed in REMAINS.items():
        failed = {name: one.failure for name, one in outcomes[kind].items() if one.failure}
        found += [f"{kind} {name}: {failed[name]}" for name in failed if name not in listed]
        passed = {name for name, one in outcomes[kind].items() if not one.failure}
        found += [
            f"{kind} {name}: listed as a failure, and passes"
            for name in sorted(listed.keys() & passed)
        ]
    return found
