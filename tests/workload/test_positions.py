import numpy as np
import pytest
from workload_sizes import model

from trnsim.workload import positions
from trnsim.workload.architecture import Rotary
from trnsim.workload.rank_graph import RankGraph

BATCH, HEADS, TOKENS, WIDTH = 2, 3, 5, 8


def turned(x, angles, is_paired):
    """Pairs of elements as complex numbers, times a number of length 1."""
    width = 2 * angles.shape[-1]
    part, rest = x[..., :width], x[..., width:]
    first, second = (
        (part[..., ::2], part[..., 1::2])
        if is_paired
        else (part[..., : width // 2], part[..., width // 2 :])
    )
    found = (first + 1j * second) * np.exp(1j * angles)
    if is_paired:
        whole = np.stack((found.real, found.imag), -1).reshape(part.shape)
    else:
        whole = np.concatenate((found.real, found.imag), -1)
    return np.concatenate((whole, rest), -1)


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize("is_paired", [False, True])
def test_heads_are_turned_by_the_angles_of_their_places(width, is_paired):
    rank_graph, rotary = RankGraph(bits=32), Rotary(width, is_paired, factor=2.0)
    positions.add_rotations(rank_graph, BATCH * TOKENS, rotary)
    rank_graph.named_inputs |= rank_graph.named_outputs
    heads = rank_graph.graph.input((BATCH, HEADS, TOKENS, WIDTH), "float32")
    rank_graph.graph.outputs.append(positions.rotated_heads(rank_graph, heads, rotary))
    rng = np.random.default_rng(0)
    frequencies = rng.random(width // 2).astype(np.float32)
    numbers = rng.integers(0, 50, BATCH * TOKENS).astype(np.int32)
    x = rng.normal(size=heads.shape).astype(np.float32)
    (found,) = rank_graph.graph.reference([frequencies, numbers, x])
    angles = (numbers[:, None] * frequencies).reshape(BATCH, 1, TOKENS, width // 2)
    wanted = turned(x, angles, is_paired)
    wanted[..., :width] *= 2
    np.testing.assert_allclose(found, wanted, atol=1e-4)


def test_heads_without_a_rotation_stay():
    rank_graph = RankGraph()
    heads = rank_graph.input(1, 2, 3, 4)
    assert positions.rotated_heads(rank_graph, heads, None) is heads
    assert positions.rotations(model().towers[0]) == ()


@pytest.mark.parametrize("first", [0, 2])
def test_rows_of_a_table_are_added_at_their_places(first):
    rank_graph = RankGraph(bits=32)
    x, table = rank_graph.input(3, 4), rank_graph.input(9, 4)
    rank_graph.graph.outputs.append(positions.with_learned_positions(rank_graph, x, table, first))
    rows, values = np.ones((3, 4), np.float32), np.arange(36, dtype=np.float32).reshape(9, 4)
    (found,) = rank_graph.graph.reference([rows, values, np.array([4, 0, 6], np.int32)])
    assert (found == rows + values[np.array([4, 0, 6]) + first]).all()


def test_scores_grow_with_the_key_by_a_number_of_each_head():
    rank_graph = RankGraph(bits=32)
    positions.alibi_bias(rank_graph, 2, 4)
    rank_graph.graph.outputs.append(rank_graph.named_outputs["bias"])
    (found,) = rank_graph.graph.reference([np.array([0.5, 2], np.float32)])
    assert found.tolist() == [[0, 0.5, 1, 1.5], [0, 2, 4, 6]]


def test_padding_is_hidden_from_all_queries():
    rank_graph = RankGraph(bits=32)
    positions.padding_bias(rank_graph, 1, 3)
    query = rank_graph.graph.input((1, 2, 3, 4), "float32")
    rank_graph.named_inputs["bias"] = rank_graph.named_outputs["bias"]
    rank_graph.graph.outputs.append(positions.bias(rank_graph, query, 3, of_heads=False))
    given = [np.array([[1, 1, 0]], np.int32), np.zeros((1, 2, 3, 4), np.float32)]
    (found,) = rank_graph.graph.reference(given)
    assert found.shape == (1, 2, 3, 3)
    assert (found[..., :2] == 0).all()
    assert (found[..., 2] < -1e38).all()
