"""`python bench/shapes.py FOLDER`: how much faster a tutorial's matmul runs without values.

FOLDER holds a clone of aws-neuron-sdk; the kernels are those of nki/examples/matrix_multiplication,
at [4096, 8192] x [8192, 8192] in bfloat16.
"""

import sys
import time
from pathlib import Path

import ml_dtypes
import numpy as np

import trnsim

KERNELS = ("nki_matmul_tiled_", "nki_matmul_hoist_load_", "nki_matmul_fully_optimized_")


def main():
    """CPU seconds with and without values, a line a kernel."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.path.insert(0, str(Path(sys.argv[1]) / "aws-neuron-sdk/nki/examples/matrix_multiplication"))
    import matrix_multiplication_nki_kernels as examples  # noqa: PLC0415  the clone's

    left = np.zeros((8192, 4096), ml_dtypes.bfloat16)
    right = np.zeros((8192, 8192), ml_dtypes.bfloat16)
    for name in KERNELS:
        spent = {}
        for numerics in (False, True):
            start = time.process_time()
            run = trnsim.run(getattr(examples, name), left, right, numerics=numerics)
            spent[numerics] = time.process_time() - start
        print(
            f"{name:<28} {spent[False]:6.2f} s without values, {spent[True]:6.2f} s with, "
            f"{spent[True] / spent[False]:4.1f} times; {len(run.program)} instructions, "
            f"{run.total_time_s * 1e3:.2f} ms on trn2"
        )


if __name__ == "__main__":
    main()
