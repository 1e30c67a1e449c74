"""What bodies do, found by running them on numbers."""

import numpy as np
import pytest
from agreeing import parsed

from trnsim.jax.stablehlo import graph_of
from trnsim.jax.stablehlo.bodies import sample_pairs, samples

REDUCE = """func.func public @main(%a: tensor<2x6x{kind}>) -> tensor<2x{kind}> {{
  %z = stablehlo.constant dense<{start}> : tensor<{kind}>
  %0 = stablehlo.reduce(%a init: %z) across dimensions = [1]
    : (tensor<2x6x{kind}>, tensor<{kind}>) -> tensor<2x{kind}>
    reducer(%p: tensor<{kind}>, %q: tensor<{kind}>) {{
      {body}
      stablehlo.return %r : tensor<{kind}>
    }}
  return %0 : tensor<2x{kind}> }}"""


def function_of(kind, start, body):
    text = REDUCE.format(kind=kind, start=start, body=body)
    return [
        node.operation.op for node in graph_of(parsed(text)).graph.nodes if node.name == "reduce"
    ]


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("kind", ["f32", "bf16", "f8E5M2", "i32", "ui8"])
def test_a_function_by_its_name(name, kind):
    start = 0 if "i" in kind else 0.0
    assert function_of(kind, start, f"%r = stablehlo.{name} %q, %p : tensor<{kind}>") == [name]


@pytest.mark.parametrize(("name", "wanted"), [("or", "maximum"), ("and", "minimum")])
def test_logic_is_an_extreme(name, wanted):
    assert function_of("i1", "false", f"%r = stablehlo.{name} %p, %q : tensor<i1>") == [wanted]


def test_a_function_that_is_written_out():
    body = """%c = stablehlo.compare GT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %r = stablehlo.select %c, %p, %q : tensor<i1>, tensor<i32>"""
    assert function_of("i32", 0, body) == ["maximum"]


def test_a_maximum_that_loses_nan_is_none():
    """XLA's and the engines' maximum of a number and NaN is NaN."""
    body = """%c = stablehlo.compare GT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %r = stablehlo.select %c, %p, %q : tensor<i1>, tensor<f32>"""
    assert function_of("f32", "0.0", body) == []


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "float8_e4m3fn", "int8", "uint32", "bool"]
)
def test_samples_tell_functions_apart(dtype):
    (left,), (right,) = sample_pairs([dtype])
    assert len(left) == len(right) == len(samples(dtype)) ** 2
    one, other = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        results = [np.maximum(one, other), np.minimum(one, other)]
        results += [one + other, one * other, one, other] if dtype != "bool" else []
    for place, result in enumerate(results):
        for following in results[place + 1 :]:
            assert not np.array_equal(result, following, equal_nan=True)
