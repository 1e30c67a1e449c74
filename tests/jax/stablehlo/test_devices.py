"""The number of a device, groups of devices, and sums of which each keeps a share."""

import jax
import numpy as np
import pytest
from agreeing import parsed

from trnsim.errors import NotModelled
from trnsim.graph.ops.collectives import AllReduce, ReduceScatter
from trnsim.jax.stablehlo import Device, graph_of

SUM = """"stablehlo.all_reduce"(%a) ({{
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
      }}) {{replica_groups = {groups}}} : (tensor<8x6xf32>) -> tensor<8x6xf32>"""
PAIRS = "dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>"
WINDOW = """func.func public @main(%a: tensor<8x6xf32>) -> tensor<{shape}xf32> {{
      %0 = {sum}
      %starts = stablehlo.constant dense<{starts}> : tensor<4xi32>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %number = stablehlo.{number} : tensor<ui32>
      %1 = stablehlo.dynamic_slice %starts, %number, sizes = [1]
        : (tensor<4xi32>, tensor<ui32>) -> tensor<1xi32>
      %start = stablehlo.reshape %1 : (tensor<1xi32>) -> tensor<i32>
      %2 = stablehlo.transpose %0, dims = [1, 0] : (tensor<8x6xf32>) -> tensor<6x8xf32>
      %3 = stablehlo.dynamic_slice %2, {places}, sizes = [{sizes}]
        : (tensor<6x8xf32>, tensor<i32>, tensor<i32>) -> tensor<{shape}xf32>
      {more}
      return %3 : tensor<{shape}xf32> }}"""


def window(number, starts=(0, 0, 4, 4), shape=(6, 4), more="", kind="partition_id", groups=PAIRS):
    """A sum over pairs, turned, and the window of it that a device reads."""
    places = "%zero, %start" if shape[0] == 6 else "%start, %zero"
    text = WINDOW.format(
        sum=SUM.format(groups=groups),
        starts=list(starts),
        shape="x".join(map(str, shape)),
        sizes=", ".join(map(str, shape)),
        places=places,
        number=kind,
        more=more,
    )
    return graph_of(parsed(text), Device(number, 4))


@pytest.mark.parametrize("kind", ["partition_id", "replica_id"])
def test_the_number_of_a_device_is_known(kind):
    text = f"""func.func public @main(%a: tensor<3xui32>) -> tensor<3xui32> {{
      %0 = stablehlo.{kind} : tensor<ui32>
      %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui32>) -> tensor<3xui32>
      %2 = stablehlo.add %a, %1 : tensor<3xui32>
      return %2 : tensor<3xui32> }}"""
    for number in (0, 5):
        found = graph_of(parsed(text), Device(number, 8))
        assert found.is_device_specific
        (made,) = found.reference([np.array([1, 2, 3], np.uint32)])
        assert made.tolist() == [1 + number, 2 + number, 3 + number]
    plain = text.replace("stablehlo.add %a, %1", "stablehlo.add %a, %a")
    assert graph_of(parsed(plain), Device(1, 8)).is_device_specific  # read, though unused
    assert not graph_of(parsed(SHORT), Device(1, 8)).is_device_specific


SHORT = """func.func public @main(%a: tensor<3xf32>) -> tensor<3xf32> {
      return %a : tensor<3xf32> }"""


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_a_sum_of_which_each_keeps_its_share_is_a_reduce_scatter(number):
    found = window(number)
    first, turned = found.graph.nodes
    assert first.operation == ReduceScatter(((0, 2), (1, 3)), "add", 0)
    assert (first.result.shape, turned.result.shape) == ((4, 6), (6, 4))
    other = window(number, (0, 0, 3, 3), (3, 8))
    assert other.graph.nodes[0].operation == ReduceScatter(((0, 2), (1, 3)), "add", 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"starts": (4, 4, 0, 0)},  # each other's share
        {"starts": (0, 4, 0, 4)},  # the other groups'
        {"starts": (0, 0, 2, 2)},  # parts that overlap
        {"starts": (0, 0, 2, 2), "shape": (6, 2)},  # less than a share
        {"starts": (0, 0, 0, 0), "shape": (3, 4)},  # cut along both
        {"more": "%4 = stablehlo.add %0, %0 : tensor<8x6xf32>"},  # read again
    ],
)
def test_another_window_of_a_sum_is_cut_from_all_of_it(changed):
    for number in range(4):
        nodes = window(number, **changed).graph.nodes
        assert nodes[0].operation == AllReduce(((0, 2), (1, 3)), "add")
        assert "slice" in [node.name for node in nodes]


def test_one_group_of_all_devices_that_are_known():
    found = window(1, (0, 2, 4, 6), (6, 2), groups="dense<> : tensor<0x0xi64>")
    assert found.graph.nodes[0].operation == ReduceScatter(((0, 1, 2, 3),), "add", 0)


@pytest.mark.skipif(jax.__version_info__ < (0, 10), reason="jaxlib before 0.10 lists groups alone")
def test_groups_by_axes_of_a_mesh_are_refused():
    named = (
        '#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>'
    )
    text = 'sdy.mesh @mesh = <["x"=2, "y"=2]>\n' + WINDOW.format(
        sum=SUM.format(groups=named),
        starts=[0, 0, 4, 4],
        shape="6x4",
        sizes="6, 4",
        places="%zero, %start",
        number="partition_id",
        more="",
    )
    with pytest.raises(NotModelled, match="all_reduce whose groups are not listed"):
        graph_of(parsed(text), Device(0, 4))


def test_a_start_that_many_operations_compute_is_no_share():
    """Python's stack ended the import, at 1000 operations one on another."""
    count = 1200
    sums = "\n".join(
        f"%v{at + 1} = stablehlo.add %v{at}, %one : tensor<i32>" for at in range(count)
    )
    text = f"""func.func public @main(%a: tensor<8x6xf32>, %v0: tensor<i32>) -> tensor<4x6xf32> {{
      %one = stablehlo.constant dense<1> : tensor<i32>
      {sums}
      %0 = {SUM.format(groups=PAIRS)}
      %1 = stablehlo.dynamic_slice %0, %v{count}, %v{count}, sizes = [4, 6]
        : (tensor<8x6xf32>, tensor<i32>, tensor<i32>) -> tensor<4x6xf32>
      return %1 : tensor<4x6xf32> }}"""
    imported = graph_of(parsed(text), Device(0, 4))
    assert any(isinstance(node.operation, AllReduce) for node in imported.graph.nodes)
