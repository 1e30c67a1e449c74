import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.torch.traces.batches import BatchRefused, in_batches


@pytest.mark.parametrize("batch", [1, 2, 3, 7])
def test_a_batch_goes_in_chunks_of_the_traced_size(batch):
    sizes = []

    def double(inputs):
        sizes.append(inputs[0].shape[0])
        return [inputs[0] * 2, inputs[1]]

    x, y = torch.randn(batch, 2), torch.arange(batch)
    results = in_batches(double, 2, [x, y])
    assert torch.equal(results[0], x * 2)
    assert torch.equal(results[1], y)
    assert sizes == [2] * -(-batch // 2)


@pytest.mark.parametrize("inputs", [[(2, 1), (3, 1)], [(0, 1)], [()]])
def test_inputs_have_one_batch_size(inputs):
    with pytest.raises(BatchRefused, match="legal: one size"):
        in_batches(list, 2, [torch.ones(shape) for shape in inputs])


@pytest.mark.parametrize("shape", [(), (1,), (3, 2)])
def test_an_output_without_the_batch_is_refused(shape):
    with pytest.raises(BatchRefused, match="for a batch of 2"):
        in_batches(lambda _: [torch.ones(shape)], 2, [torch.ones(3)])
    with pytest.raises(BatchRefused, match="for a batch of 2"):
        in_batches(lambda _: [torch.ones(shape)], 2, [torch.ones(1)])
    (output,) = in_batches(lambda _: [torch.ones(shape)], 2, [torch.ones(2)])
    assert output.shape == shape
