"""What values of MLIR are, and what is computed at once."""

import numpy as np
import pytest
from agreeing import BFLOAT16, parsed

from trnsim.jax.stablehlo import graph_of
from trnsim.jax.stablehlo.scope import Scope, Target, compact, is_splat, splat_value


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        (np.full((2, 3), 1.5, np.float32), True),
        (np.array([1.0, 2.0]), False),
        (np.array([0.0, -0.0]), False),
        (np.full(3, np.nan, np.float32), True),
        (np.full((4, 1), 2, BFLOAT16), True),
        (np.array(7), True),
        (np.ones((2, 0)), False),
        (np.array([True, True]), True),
    ],
)
def test_numbers_that_are_all_one(numbers, wanted):
    found = compact(numbers)
    assert is_splat(found) is wanted
    np.testing.assert_array_equal(found, numbers)
    if wanted:
        np.testing.assert_equal(splat_value(found), float(numbers.ravel()[0]))


def test_numbers_as_a_tensor():
    scope = Scope(Target({}))
    one = scope.tensor(np.broadcast_to(np.float32(3), (2, 2)))
    table = np.arange(4, dtype=np.float32)
    wide = scope.tensor(np.broadcast_to(table, (3, 4)))
    assert scope.tensor(table).shape == (4,)
    assert (one.shape, wide.shape) == ((2, 2), (3, 4))
    assert [node.name for node in scope.graph.nodes] == ["constant", "broadcast_in_dim"]
    assert len(scope.target.constants) == 1


def test_large_numbers_that_are_all_one_are_computed_as_one():
    text = """func.func public @main() -> tensor<4096x4096xf32> {
      %a = stablehlo.constant dense<2.0> : tensor<4096x4096xf32>
      %0 = stablehlo.multiply %a, %a : tensor<4096x4096xf32>
      return %0 : tensor<4096x4096xf32> }"""
    found = graph_of(parsed(text))
    (node,) = found.graph.nodes
    assert (node.name, node.operation.number) == ("constant", 4.0)


def test_many_known_numbers_are_left_to_the_graph():
    numbers = ", ".join(f"{one}.0" for one in range(5000))
    text = f"""func.func public @main() -> tensor<5000xf32> {{
      %a = stablehlo.constant dense<[{numbers}]> : tensor<5000xf32>
      %0 = stablehlo.multiply %a, %a : tensor<5000xf32>
      return %0 : tensor<5000xf32> }}"""
    found = graph_of(parsed(text))
    assert [node.name for node in found.graph.nodes] == ["multiply"]
