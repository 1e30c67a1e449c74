import io
import warnings

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.xla.neuronx.buckets import BucketModelConfig, bucket_model_trace, create_bucket_model

INPUTS = [(torch.ones(2, 4), torch.ones(2, 4)), (torch.ones(2, 8), torch.ones(2, 8))]

pytestmark = [
    pytest.mark.slow,  # each compiles several programs
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
]


def pad_to_a_bucket(tensors: list[torch.Tensor]):
    length = tensors[0].shape[1]
    index = 0
    bucket = 4
    if length > 4:
        index = 1
        bucket = 8
    if length > 8:
        index = 2
    padded = [torch.nn.functional.pad(tensor, [0, max(bucket - length, 0)]) for tensor in tensors]
    return padded, torch.tensor([index])


def kernel(*_):
    return torch.jit.script(pad_to_a_bucket)


class Sums(torch.nn.Module):
    def __init__(self, factor=1.0):
        super().__init__()
        self.factor = factor

    def forward(self, x, y):
        return (x + y).sum(1) * self.factor


def test_the_kernel_pads_and_chooses_a_program_after_saving_too():
    traced = bucket_model_trace(lambda: (Sums(), {}), INPUTS, BucketModelConfig(kernel))
    stream = io.BytesIO()
    torch.jit.save(traced, stream)
    stream.seek(0)
    for module in (traced, torch.jit.load(stream)):
        for length in (1, 4, 5, 8):
            x = torch.randn(2, length)
            torch.testing.assert_close(module(x, x), 2 * x.sum(1))
    with pytest.raises(
        torch.jit.Error, match=r"chose bucket 2, that was not traced; legal: 0 to 1"
    ):
        traced(torch.ones(2, 9), torch.ones(2, 9))


def test_each_bucket_may_have_a_model_of_its_own(tmp_path):
    config = BucketModelConfig(kernel, func_kwargs=[{"factor": 1.0}, {"factor": 10.0}])
    traced = bucket_model_trace(
        lambda factor: (Sums(factor), {}), INPUTS, config, compiler_workdir=tmp_path
    )
    assert traced(torch.ones(2, 3), torch.ones(2, 3)).tolist() == [6, 6]
    assert traced(torch.ones(2, 6), torch.ones(2, 6)).tolist() == [120, 120]
    assert {path.name for path in tmp_path.iterdir()} == {"bucket_0", "bucket_1"}
    assert config.bucket_degree == 2


@pytest.mark.parametrize(
    ("func", "inputs", "config", "match"),
    [
        (lambda: (Sums(), {}), INPUTS[0], BucketModelConfig(kernel), "example_inputs tuple"),
        (lambda: (Sums(), {}), [], BucketModelConfig(kernel), "example_inputs list"),
        (lambda: (Sums(), {}), INPUTS, kernel, "bucket_config is function"),
        (Sums, INPUTS, BucketModelConfig(kernel), "returns a Sums"),
        (
            lambda x: x,
            INPUTS,
            BucketModelConfig(kernel),
            "called with the arguments none of func_k",
        ),
        (Sums, INPUTS, BucketModelConfig(kernel, func_kwargs=[{}]), "for 1 buckets"),
        (Sums, INPUTS, BucketModelConfig(kernel, shared_state_buffer=[]), "not modelled"),
    ],
)
def test_what_is_no_model_of_buckets_is_refused(func, inputs, config, match):
    with pytest.raises(BadInput, match=match) as refused:
        bucket_model_trace(func, inputs, config)
    assert refused.value.line.file == __file__


def test_buckets_return_the_same_nesting():
    class Differs(torch.nn.Module):
        def forward(self, x, y):
            return x + y if x.shape[1] > 4 else {"sum": x + y}

    with pytest.raises(BadInput, match="the same nesting"):
        bucket_model_trace(lambda: (Differs(), {}), INPUTS, BucketModelConfig(kernel))


def test_binaries_are_refused():
    with warnings.catch_warnings(), pytest.raises(BadInput, match="binaries of neuronx-cc"):
        create_bucket_model([])


def test_a_kernel_is_a_function():
    with pytest.raises(BadInput, match="BucketModelConfig of 'kernel'; legal: a function"):
        BucketModelConfig("kernel")
