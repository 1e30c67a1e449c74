"""The operations that instructions compute."""

from types import SimpleNamespace

import numpy as np

from trnsim.graph import Graph
from trnsim.lower.emit.naming import NamedStretch, chain_name, chain_node
from trnsim.lower.program import trace


def chain():
    g = Graph()
    x, w = g.input((128, 128), "bfloat16"), g.input((128, 128), "bfloat16")
    product = g.dot_general(x, w, (1, 1))
    made = g.elementwise("convert", g.elementwise("gelu", product), dtype="float32")
    g.outputs = [made]
    return g, product, made


def test_a_chain_is_named_by_its_product_and_conversions_last():
    g, product, made = chain()
    maker = {node.result.number: node for node in g.nodes}
    leaves = {product.number: SimpleNamespace(is_pending=True, storage=SimpleNamespace(name="mm"))}
    assert chain_name(maker, made, leaves) == "mm+gelu+convert"
    assert chain_node(maker, made, leaves) is maker[product.number]


def test_without_a_product_its_last_operation_stands_for_it():
    g, product, made = chain()
    maker = {node.result.number: node for node in g.nodes}
    leaves = {product.number: SimpleNamespace(is_pending=False)}
    assert chain_name(maker, made, leaves) == "gelu+convert"
    assert chain_node(maker, made, leaves) is maker[made.number]
    assert chain_name(maker, g.inputs[0], {}) == "copy"
    assert chain_node(maker, g.inputs[0], {}) is None


def test_a_program_says_from_which_instruction_on_it_computes_what():
    g, product, _ = chain()
    inputs = [np.empty(value.shape, value.type.numpy_dtype()) for value in g.inputs]
    found = trace(g, inputs, "trn2", frozenset({g.inputs[1].number}), numerics=False)
    assert found.names[0] == NamedStretch(0, "")
    firsts = [one.first_instruction for one in found.names]
    assert firsts == sorted(firsts)
    named = {one.name: one.node for one in found.names}
    assert named["dot_general+gelu+convert"].result == product
    assert len(found.stretches()) == len(found.run.program)
