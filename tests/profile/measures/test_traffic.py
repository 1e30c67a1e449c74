import pytest

from trnsim.arch import NEURONCORE_V2, NEURONCORE_V3
from trnsim.dtypes import BFLOAT16, FLOAT8_E4M3, FLOAT32
from trnsim.isa import NcTranspose
from trnsim.memory import Memory
from trnsim.profile.measures.traffic import Totals


def totals(kernel):
    return Totals(kernel.context.program)


def test_bytes_are_counted_where_they_are_read_and_written(kernel):
    tile = kernel.load(128, 64)
    kernel.store(tile)
    kernel.copy(kernel.matmul(tile, kernel.load(128, 512)))
    found = totals(kernel)
    assert found.of("hbm_read_bytes") == 128 * (64 + 512) * 2
    assert found.of("hbm_write_bytes") == 128 * 64 * 2
    assert found.of("psum_write_bytes") == found.of("psum_read_bytes") == 64 * 512 * 4
    assert found.of("psum_to_sbuf_bytes") == 64 * 512 * 4
    assert found.of("sbuf_write_bytes") == 128 * (64 + 512) * 2 + 64 * 512 * 2
    assert found.of("sbuf_read_bytes") == 128 * 64 * 2 + 128 * (64 + 512) * 2


def test_transposes_are_part_of_the_flops(kernel):
    data = kernel.load(128, 128)
    kernel.do(NcTranspose(kernel.tile(Memory.PSUM, 128, 128), data))
    kernel.matmul(data, data)
    found = totals(kernel)
    assert found.of("transpose_flops") == 2 * 128**3
    assert found.of("flops") == 2 * 2 * 128**3


def test_a_float32_matmul_is_two_instructions_of_the_hardware(new_kernel):
    for dtype, matmuls in ((BFLOAT16, 3), (FLOAT32, 6)):
        kernel = new_kernel(NEURONCORE_V3)
        left, right = (kernel.load(128, 128, dtype=dtype) for _ in range(2))
        for _ in range(3):
            kernel.matmul(left, right)
        assert totals(kernel).of("matmuls") == matmuls


@pytest.mark.parametrize(
    ("core", "dtype", "weight"),
    [
        (NEURONCORE_V3, BFLOAT16, 1),
        (NEURONCORE_V3, FLOAT32, 4),
        (NEURONCORE_V3, FLOAT8_E4M3, 0.5),
        (NEURONCORE_V2, FLOAT8_E4M3, 1),
    ],
)
def test_flops_weigh_what_their_dtype_costs_against_bfloat16(new_kernel, core, dtype, weight):
    kernel = new_kernel(core)
    kernel.matmul(kernel.load(128, 128, dtype=dtype), kernel.load(128, 512, dtype=dtype))
    found = totals(kernel)
    assert found.weighted("flops") == weight * found.of("flops") > 0
