"""What is read of MLIR's objects."""

import numpy as np
import pytest
from agreeing import BFLOAT16, parsed

from trnsim.errors import NotModelled
from trnsim.jax.stablehlo import mlir


def operations(line):
    module = parsed(f"func.func public @main(%a: tensor<2x3xf32>) {{ {line}\n return }}")
    block = mlir.functions(module)["main"].regions[0].blocks[0]
    return module, [one.operation for one in block.operations]


@pytest.mark.parametrize(
    ("kind", "written", "wanted"),
    [
        ("2xf32", "[1.5, 0xFF800000]", np.array([1.5, -np.inf], np.float32)),
        ("2xbf16", "[1.5, 0x7F80]", np.array([1.5, np.inf], BFLOAT16)),
        ("3xbf16", "[-2.5, 1.0e-3, 0.0]", np.array([-2.5, 1e-3, 0], BFLOAT16)),
        ("2xf16", "[1.5, -2.0]", np.array([1.5, -2], np.float16)),
        ("2xbf16", "1.5", np.array([1.5, 1.5], BFLOAT16)),
        ("i32", "-7", np.array(-7, np.int32)),
        ("2xui8", "[255, 0]", np.array([255, 0], np.uint8)),
        ("3xi1", "[true, false, true]", np.array([True, False, True])),
        ("2xi1", "true", np.array([True, True])),
        ("2x1xui64", "[[1], [4294967296]]", np.array([[1], [2**32]], np.uint64)),
        ("0xf32", "[]", np.zeros(0, np.float32)),
    ],
)
def test_constants(kind, written, wanted):
    module, (op, _) = operations(f"%0 = stablehlo.constant dense<{written}> : tensor<{kind}>")
    found = mlir.constant(op)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    del module


def test_many_numbers_of_a_short_type():
    numbers = np.arange(200, dtype=np.float32).astype(BFLOAT16)
    written = ", ".join(f"{float(one):e}" for one in numbers)
    module, (op, _) = operations(f"%0 = stablehlo.constant dense<[{written}]> : tensor<200xbf16>")
    np.testing.assert_array_equal(mlir.constant(op), numbers)
    del module


def test_a_constant_of_another_type_is_refused():
    module, (op, _) = operations(
        "%0 = stablehlo.constant dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>"
    )
    with pytest.raises(NotModelled, match=r"^a constant of complex<f32>; a NeuronCore stores"):
        mlir.constant(op)
    del module


def test_attributes():
    line = """%0 = stablehlo.slice %a [0:2, 1:3] : (tensor<2x3xf32>) -> tensor<2x2xf32>
      %1 = stablehlo.compare GE, %a, %a : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
      %2 = stablehlo.iota dim = 1 : tensor<2x3xi32>"""
    module, (cut, compared, counted, _) = operations(line)
    assert mlir.ints(cut, "start_indices") == (0, 1)
    assert mlir.ints(cut, "nothing", (4,)) == (4,)
    assert mlir.symbol(compared, "comparison_direction") == "GE"
    assert mlir.symbol(compared, "nothing") == ""
    assert mlir.number(counted, "iota_dimension") == 1
    assert mlir.number(counted, "nothing", 5) == 5
    assert mlir.flag(cut, "nothing") is False
    assert mlir.matrix(cut, "nothing") == []
    del module
