"""Custom calls by name, and notes of shardings."""

import math

import numpy as np
import pytest
from agreeing import parsed

from trnsim.errors import NotModelled
from trnsim.jax.stablehlo import graph_of

CALL = """func.func public @main(%a: tensor<4x6xf32>) -> tensor<{result}xf32> {{
  %0 = stablehlo.custom_call @{name}(%a) : (tensor<4x6xf32>) -> tensor<{result}xf32>
  return %0 : tensor<{result}xf32> }}"""


def of(name, result="4x6"):
    return graph_of(parsed(CALL.format(name=name, result=result)))


@pytest.mark.parametrize("name", ["Sharding", "LayoutConstraint", "annotate_device_placement"])
def test_notes_pass(name):
    found = of(name)
    assert found.outputs == found.inputs
    assert not found.graph.nodes


def test_a_note_that_makes_a_share_is_refused():
    with pytest.raises(NotModelled, match=r"of SPMDFullToShardShape from tensor<4x6xf32> to tens"):
        of("SPMDFullToShardShape", "2x6")


def test_notes_of_shardy_pass():
    text = """module {
      sdy.mesh @mesh = <["x"=1]>
      func.func public @main(%a: tensor<4x6xf32>) -> tensor<4x6xf32> {
        %0 = sdy.sharding_constraint %a <@mesh, [{"x"}, {}]> : tensor<4x6xf32>
        return %0 : tensor<4x6xf32> } }"""
    found = graph_of(parsed(text))
    assert found.outputs == found.inputs


def test_a_kernel_of_another_process_is_refused_by_name():
    """One of this process is in tests/jax/test_launches.py: it needs the platform."""
    with pytest.raises(
        NotModelled,
        match=r"^stablehlo\.custom_call of AwsNeuronCustomNativeKernel: the program names",
    ):
        of("AwsNeuronCustomNativeKernel")


def test_code_of_the_host_is_refused_by_name():
    with pytest.raises(
        NotModelled, match=r"^stablehlo\.custom_call of lapack_spotrf: code of the host"
    ):
        of("lapack_spotrf")


@pytest.mark.parametrize("name", ["acos", "asin", "asinh", "atan", "atanh", "cosh", "erf", "sinh"])
def test_functions_that_older_artifacts_call_by_name(name):
    """An artifact of JAX 0.8 has them so; the function of numpy and math is another's."""
    given = np.linspace(-0.9, 0.9, 24, dtype=np.float32).reshape(4, 6)
    (found,) = of(f"mhlo.{name}").reference([given])
    whole = np.vectorize(getattr(math, name))(given.astype(np.float64))
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["erf", "tan", "sinh", "acosh", "asin"])
def test_functions_that_xla_writes_back(name):
    text = f"""func.func public @main(%a: tensor<4x6xf32>) -> tensor<4x6xf32> {{
      %0 = mhlo.{name} %a : tensor<4x6xf32>
      %1 = mhlo.copy %0 : tensor<4x6xf32>
      return %1 : tensor<4x6xf32> }}"""
    first = 0.05 if name == "asin" else 1.25
    given = np.linspace(first, first + 0.75, 24, dtype=np.float32).reshape(4, 6)
    (found,) = graph_of(parsed(text)).reference([given])
    wanted = np.vectorize(getattr(math, name))(given.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


def test_the_largest_elements():
    text = """func.func public @main(%a: tensor<2x6xf32>) -> (tensor<2x3xf32>, tensor<2x3xi32>) {
      %0, %1 = mhlo.topk(%a, k = 3 SMALLEST) : tensor<2x6xf32> -> (tensor<2x3xf32>, tensor<2x3xi32>)
      return %0, %1 : tensor<2x3xf32>, tensor<2x3xi32> }"""
    given = np.array([[1, 5, 3, 9, 7, 0], [2, 2, 8, -1, 4, 4]], np.float32)
    values, places = graph_of(parsed(text.replace(" SMALLEST", ""))).reference([given])
    assert values.tolist() == [[9, 7, 5], [8, 4, 4]]
    assert places.tolist() == [[3, 4, 1], [2, 4, 5]]
    with pytest.raises(NotModelled, match=r"mhlo\.topk of the smallest elements"):
        graph_of(parsed(text.replace("k = 3 SMALLEST", "k = 3, largest = false")))


def test_the_smallest_elements_are_refused_in_a_custom_call_too():
    text = """func.func public @main(%a: tensor<6xf32>) -> tensor<3xf32> {
      %0:2 = stablehlo.custom_call @mhlo.topk(%a)
        {mhlo.attributes = {k = 3 : i64, largest = LARGEST}, mhlo.version = 1 : i64}
        : (tensor<6xf32>) -> (tensor<3xf32>, tensor<3xi32>)
      return %0#0 : tensor<3xf32> }"""
    numbers = np.array([3, 1, 2, 6, 5, 4], np.float32)
    found = graph_of(parsed(text.replace("LARGEST", "true"))).reference([numbers])
    np.testing.assert_array_equal(found, [[6, 5, 4]])
    with pytest.raises(NotModelled, match=r"mhlo\.topk of the smallest elements"):
        graph_of(parsed(text.replace("LARGEST", "false")))
    for given in ('"false"', "1 : i64"):
        with pytest.raises(NotModelled, match=r"mhlo\.topk with the attributes .*; legal: k = 3"):
            graph_of(parsed(text.replace("LARGEST", given)))
    with pytest.raises(NotModelled, match=r"mhlo\.topk with the attributes 5 : i64; legal"):
        graph_of(parsed(text.replace("{k = 3 : i64, largest = LARGEST}", "5 : i64")))
