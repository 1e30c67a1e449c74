import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.xla.neuronx.hlo_calls import HloOperationAbsent, xla_hlo_call
from trnsim.xla.neuronx.trace import trace

X = torch.arange(12.0).reshape(3, 4)


@xla_hlo_call
def update(tensor, part, *starts):
    return tensor.dtype[tensor.sizes].DynamicUpdateSlice(tensor, part, *starts)


@pytest.mark.parametrize(("start", "first"), [(0, 0), (1, 1), (2, 1), (-5, 0)])
def test_an_update_is_moved_inside_as_hlo_does(start, first):
    result = update(X, -torch.ones(2, 4), torch.tensor(start), torch.tensor(0))
    expected = X.clone()
    expected[first : first + 2] = -1
    assert torch.equal(result, expected)
    assert X[1, 1] == 5


@pytest.mark.slow
def test_a_traced_update_reads_its_place_when_it_runs():
    traced = trace(
        lambda x, part, start: update(x, part, start, torch.tensor(1)),
        (X, torch.ones(1, 2), torch.tensor(0)),
    )
    result = traced(X, -torch.ones(1, 2), torch.tensor(2))
    assert result[2].tolist() == [8, -1, -1, 11]


def test_a_slice_a_fill_and_random_numbers():
    @xla_hlo_call
    def part(tensor, start):
        return tensor.dynamic_slice([start, start], [2, 2])

    @xla_hlo_call
    def prefix(tensor, values):
        zero = tensor.scribe.u32.Constant(constant_value=0)
        return tensor.dtype[tensor.sizes].DynamicUpdateSlice(tensor, values, zero, zero)

    @xla_hlo_call
    def drawn(tensor):
        low, high = tensor.dtype.Constant(constant_value=2), tensor.dtype.Constant(constant_value=3)
        return tensor.dtype[tensor.sizes].Rng(low, high, distribution=1)

    assert torch.equal(part(X, torch.tensor(1)), X[1:3, 1:3])
    assert prefix(X, -torch.ones(1, 1))[0, 0] == -1
    numbers = drawn(X)
    assert numbers.shape == (3, 4)
    assert ((numbers >= 2) & (numbers < 3)).all()


def test_other_operations_that_are_written_so():
    @xla_hlo_call
    def several(x):
        f32 = x.scribe.f32
        doubled = f32[x.sizes].Add(x, x)
        squared = f32[x.sizes].Multiply(doubled, doubled)
        turned = f32[4, 3].Transpose(squared, dimensions=[1, 0])
        return x.scribe.s32.Convert(f32[24].Reshape(f32[8, 3].Concatenate(turned, turned)))

    turned = (2 * X).square().T
    assert torch.equal(several(X), torch.cat([turned, turned]).reshape(24).int())


def test_markers_of_modules_give_what_they_are_given():
    @xla_hlo_call
    def mark(*args):
        kind = args[0] if len(args) == 1 else args[0].scribe.tuple(*args)
        return kind.CustomCall(*args, custom_call_target="AwsNeuronModuleMarkerStart-Forward")

    assert mark(X) is X
    assert mark(X, X) == (X, X)


def test_what_is_not_computed_is_named():
    with pytest.raises(HloOperationAbsent, match="Fft in a function of xla_hlo_call"):
        xla_hlo_call(lambda x: x.dtype[x.sizes].Fft(x))(X)
    with pytest.raises(HloOperationAbsent, match="CustomCall\\('Other'\\)"):
        xla_hlo_call(lambda x: x.CustomCall(x, custom_call_target="Other"))(X)
    with pytest.raises(HloOperationAbsent, match=r"scribe.c64"):
        xla_hlo_call(lambda x: x.scribe.c64)(X)
    with pytest.raises(BadInput, match="without a shape"):
        xla_hlo_call(lambda x: x.dtype.Reshape(x))(X)
    with pytest.raises(HloOperationAbsent, match="distribution=2"):
        xla_hlo_call(lambda x: x.dtype[x.sizes].Rng(x, x, distribution=2))(X)


def test_a_window_lies_within_the_tensor():
    """A longer one began before the tensor, and wrapped around."""

    def taken(sizes, count):
        @xla_hlo_call
        def take(x):
            starts = [x.scribe.s32.Constant(0)] * count
            return x.dtype[sizes].DynamicSlice(x, *starts, dynamic_slice_sizes=sizes)

        return take(torch.arange(4.0))

    assert taken([4], 1).tolist() == [0, 1, 2, 3]
    for sizes, count in (([5], 1), ([2, 2], 1), ([2, 2], 2), ([2], 0)):
        with pytest.raises(BadInput, match="legal: a start and a size for each dimension"):
            taken(sizes, count)

    @xla_hlo_call
    def put(x, update):
        return x.dtype[x.sizes].DynamicUpdateSlice(x, update, x.scribe.s32.Constant(0))

    with pytest.raises(BadInput, match=r"window \[5\] from 1 starts in a tensor \[4\]"):
        put(torch.arange(4.0), torch.ones(5))
