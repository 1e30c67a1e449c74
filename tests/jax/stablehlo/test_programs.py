"""Whole programs: imported, beside XLA's CPU, and compiled as one program for a chip."""

from collections import Counter
from functools import partial
from math import prod

import jax
import jax.numpy as jnp
import llama
import numpy as np
import pytest
import torch
from agreeing import BFLOAT16, BLOCK, agree, module_of, same
from jax import lax

from trnsim import compiler
from trnsim.compiler import program
from trnsim.graph import Kind
from trnsim.jax.stablehlo import graph_of
from trnsim.torch.models.model_graph import _imported as imported_of_pytorch

IMAGE = np.random.default_rng(3).standard_normal((2, 8, 8, 4)).astype(np.float32)
TAPS = np.random.default_rng(4).standard_normal((3, 3, 4, 8)).astype(np.float32)


def normalized(x):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def attended(x):
    q, k, v = (x[None] for _ in range(3))
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def convolved(x, taps):
    found = lax.conv_general_dilated(
        x, taps, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jax.nn.relu(found).mean()


ACTIVATIONS = (
    *("celu", "elu", "gelu", "glu", "hard_swish", "hard_tanh", "leaky_relu", "log_sigmoid"),
    *("log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softmax"),
    *("softplus", "sparse_plus", "squareplus", "standardize", "tanh"),
)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_functions_of_networks(name):
    function = getattr(jax.nn, name)
    agree(function, BLOCK, tolerance=1e-4)
    agree(jax.grad(lambda x: (function(x) ** 2).sum()), BLOCK, tolerance=1e-3)
    agree(function, BLOCK.astype(BFLOAT16), tolerance=2.0**-5)


@pytest.mark.parametrize("function", [normalized, attended, partial(jax.nn.one_hot, num_classes=4)])
def test_parts_of_networks(function):
    given = BLOCK if not isinstance(function, partial) else (BLOCK[0] * 3).astype(np.int32)
    agree(function, given, tolerance=1e-4)


@pytest.mark.parametrize("function", [normalized, attended])
def test_gradients_of_parts(function):
    agree(jax.grad(lambda x: (function(x) ** 2).sum()), BLOCK, tolerance=2e-3)


@pytest.mark.parametrize("is_remat", [False, True])
def test_a_step_of_a_model(is_remat):
    params, given = llama.parameters(), llama.tokens()
    found = agree(partial(llama.step, is_remat=is_remat), params, given, tolerance=2e-4)
    assert not any(node.kind is Kind.CONTROL for node in found.graph.nodes)
    modules = {node.origin.module for node in found.graph.nodes}
    assert {"0.attention", "0.network", "1.attention", "1.network"} <= modules
    compiled = compiler.compile(found.graph, "trn2")
    assert compiled.programs == 1
    assert compiled.said == ()
    assert compiled.device_time_s > 0


def test_a_step_in_bfloat16():
    params, given = llama.parameters(BFLOAT16), llama.tokens()
    module = module_of(partial(llama.step, is_remat=True), params, given)
    found = graph_of(module)
    arrays = [np.asarray(one) for one in jax.tree.leaves((params, given))]
    value, *_ = found.reference(arrays)
    wanted, _ = jax.jit(llama.step)(params, given)
    assert float(value) == pytest.approx(float(wanted), rel=2.0**-7)


def products(graph):
    """How often each matrix product is in a graph; one and its transpose are the same."""
    found = Counter()
    for node in graph.nodes:
        if node.name == "dot_general":
            lhs, rhs = node.given
            over = lhs.shape[node.operation.contracting[0]]
            rows, columns = (prod(one.shape[-2:]) // over for one in (lhs, rhs))
            batch = prod(lhs.shape[:-2])
            found[batch, over, min(rows, columns), max(rows, columns), lhs.dtype] += 1
    return found


def flop(graph):
    return sum(node.operation.flop(*node.given) for node in graph.nodes)


def test_the_products_are_those_of_the_same_step_in_pytorch():
    given = llama.tokens()
    ours = graph_of(module_of(llama.step, llama.parameters(), given)).graph
    theirs = imported_of_pytorch(
        llama.Model(), (torch.from_numpy(given),), 1, is_trained=True
    ).graph
    assert products(ours) == products(theirs)
    assert sum(products(ours).values()) == 27 * llama.LAYERS + 3
    assert flop(ours) == flop(theirs)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        (normalized, (BLOCK,)),
        (jax.nn.softmax, (BLOCK,)),
        (lambda x: jnp.einsum("abc,dbc->cbda", x, x[:2]), (BLOCK,)),
        (lambda x: x[jnp.array([0, 3, 9])] + jnp.array([1.0, 2, 3, 4]), (BLOCK,)),
        (convolved, (IMAGE, TAPS)),
        (attended, (BLOCK,)),
    ],
)
def test_instruction_by_instruction(function, given):
    """The values of the program that is compiled, not of the graph's references."""
    found = graph_of(module_of(function, *given))
    made = program.values(found.graph, found.arguments(given), "trn2")
    for ours, theirs in zip(made, jax.tree.leaves(jax.jit(function)(*given)), strict=True):
        same(np.asarray(ours), theirs, 2.0**-12)
    assert compiler.compile(found.graph, "trn2", weights=found.constants).device_time_s > 0
