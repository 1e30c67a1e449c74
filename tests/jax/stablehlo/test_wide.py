"""Integers of 64 bits, by which JAX numbers random elements."""

import numpy as np
import pytest
from agreeing import agree_text, parsed

from trnsim.errors import NotModelled
from trnsim.jax.stablehlo import graph_of

COUNTED = """func.func public @main(%a: tensor<3x4xui32>) -> (tensor<3x4xui32>, tensor<3x4xui32>) {{
  %0 = stablehlo.iota dim = 0 : tensor<3x4xui64>
  %c = stablehlo.constant dense<{by}> : tensor<3x4xui64>
  %1 = stablehlo.multiply %0, %c : tensor<3x4xui64>
  %2 = stablehlo.convert %a : (tensor<3x4xui32>) -> tensor<3x4xui64>
  %3 = stablehlo.iota dim = 1 : tensor<3x4xui64>
  %4 = stablehlo.add %1, %3 : tensor<3x4xui64>
  %d = stablehlo.constant dense<{places}> : tensor<3x4xui64>
  %5 = stablehlo.shift_right_logical %4, %d : tensor<3x4xui64>
  %6 = stablehlo.convert %5 : (tensor<3x4xui64>) -> tensor<3x4xui32>
  %7 = stablehlo.convert %4 : (tensor<3x4xui64>) -> tensor<3x4xui32>
  return %6, %7 : tensor<3x4xui32>, tensor<3x4xui32> }}"""
GIVEN = np.arange(12, dtype=np.uint32).reshape(3, 4)


@pytest.mark.parametrize("by", [0, 1, 4, 2**31 - 2])
def test_counts_below_a_word(by):
    agree_text(COUNTED.format(by=by, places=32), GIVEN)


def test_counts_beyond_a_word_are_refused():
    with pytest.raises(NotModelled, match="multiply of integers of 64 bits that may reach"):
        graph_of(parsed(COUNTED.format(by=2**31, places=32)))


def test_another_shift_is_refused():
    with pytest.raises(NotModelled, match="shift of integers of 64 bits but by 32 places"):
        graph_of(parsed(COUNTED.format(by=1, places=31)))


def test_both_words_of_a_number():
    text = """func.func public @main(%a: tensor<3x2xui32>) -> (tensor<3x2xui32>, tensor<3xui32>) {
      %0 = stablehlo.bitcast_convert %a : (tensor<3x2xui32>) -> tensor<3xui64>
      %1 = stablehlo.reshape %0 : (tensor<3xui64>) -> tensor<1x3xui64>
      %2 = stablehlo.reshape %1 : (tensor<1x3xui64>) -> tensor<3xui64>
      %3 = stablehlo.bitcast_convert %2 : (tensor<3xui64>) -> tensor<3x2xui32>
      %c = stablehlo.constant dense<32> : tensor<3xui64>
      %4 = stablehlo.shift_right_logical %2, %c : tensor<3xui64>
      %5 = stablehlo.convert %4 : (tensor<3xui64>) -> tensor<3xui32>
      return %3, %5 : tensor<3x2xui32>, tensor<3xui32> }"""
    agree_text(text, GIVEN.ravel()[:6].reshape(3, 2) * 2**28)
