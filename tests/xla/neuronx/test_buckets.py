import io

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.xla.neuronx.buckets import BucketModelConfig, bucket_model_trace

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
        (lambda: (Sums(), {}), INPUTS[0], BucketModelConfig(kernel), r"example_inputs=\("),
        (lambda: (Sums(), {}), [], BucketModelConfig(kernel), r"example_inputs=\[\]"),
        (lambda: (Sums(), {}), INPUTS, kernel, "bucket_config is function"),
        (Sums, INPUTS, BucketModelConfig(kernel), "returns a Sums"),
        (
            lambda x: x,
            INPUTS,
            BucketModelConfig(kernel),
            "called with the arguments none of func_k",
        ),
        (Sums, INPUTS, BucketModelConfig(kernel, func_kwargs=[{}]), "for 1 buckets"),
        (
            lambda: (Sums(), {}),
            INPUTS,
            BucketModelConfig(dict),
            "dict of a BucketModelConfig returns a dict; legal: a function of TorchScript",
        ),
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


class Cache(torch.nn.Module):
    """The sum of all inputs so far, by columns; the states are the sums and a count."""

    def __init__(self, length=4):
        super().__init__()
        self.sums = torch.nn.Buffer(torch.zeros(2, length))
        self.calls = torch.nn.Buffer(torch.zeros(1))

    def forward(self, x, y):
        sums = self.sums + x * y
        return sums.sum(1), sums, self.calls + 1


def cache_of(length):
    model = Cache(length)
    return model, {model.sums: 1, model.calls: 2}


def cut_to_the_bucket(
    shapes: list[list[list[int]]], states: list[torch.Tensor], bucket: torch.Tensor
) -> list[torch.Tensor]:
    shape = shapes[torch.ops.aten.Int(bucket)][0]
    return [torch.ops.aten.slice(states[0], 1, 0, shape[1]), states[1]]


def test_buckets_share_states_of_which_each_takes_its_part():
    shared = [torch.full((2, 8), 0.5), torch.zeros(1)]
    config = BucketModelConfig(
        kernel,
        shared_state_buffer=shared,
        shared_state_buffer_preprocessor=lambda *_: torch.jit.script(cut_to_the_bucket),
        func_kwargs=[{"length": 4}, {"length": 8}],
    )
    traced = bucket_model_trace(cache_of, INPUTS, config)
    stream = io.BytesIO()
    torch.jit.save(traced, stream)
    stream.seek(0)
    for module in (traced, torch.jit.load(stream)):
        sums = torch.full((2, 8), 0.5)
        for length in (3, 7, 4, 8):
            x = torch.randn(2, length)
            sums[:, :length] += x * x
            kept = 4 if length <= 4 else 8
            torch.testing.assert_close(module(x, x), sums[:, :kept].sum(1))
        assert module.states[1].item() == 4
    assert shared[1].item() == 0


def test_states_of_one_shape_need_nothing_that_cuts_them():
    config = BucketModelConfig(kernel, shared_state_buffer=[torch.zeros(2, 1), torch.zeros(1)])

    class Total(Cache):
        def forward(self, x, y):
            sums = self.sums + (x * y).sum(1, keepdim=True)
            return sums[:, 0], sums, self.calls + 1

    def total():
        model = Total(1)
        return model, {model.sums: 1, model.calls: 2}

    traced = bucket_model_trace(total, INPUTS, config)
    ones = torch.ones(2, 8)
    assert [traced(ones[:, :n], ones[:, :n]).tolist() for n in (3, 8)] == [[3, 3], [11, 11]]


@pytest.mark.parametrize(
    ("shared", "match"),
    [
        ([], "shared_state_buffer is a list; legal: a list of tensors"),
        (torch.zeros(1), "shared_state_buffer is a Tensor"),
        ([torch.zeros(2, 4)], r"has float32\[2, 4\]; the model of bucket 0 keeps float32\[2, 4\]"),
        ([torch.zeros(2, 8), torch.zeros(1)], "of bucket 0 keeps"),
        ([torch.zeros(2, 4), torch.zeros(1, dtype=torch.int64)], "of bucket 0 keeps"),
    ],
)
def test_states_that_the_models_do_not_keep_are_refused(shared, match):
    config = BucketModelConfig(kernel, shared_state_buffer=shared)
    with pytest.raises(BadInput, match=match):
        bucket_model_trace(lambda: cache_of(4), INPUTS[:1], config)


def test_the_number_of_buckets_is_that_of_their_inputs():
    config = BucketModelConfig(kernel)
    assert config.bucket_degree == 1
    config.store_example_inputs(INPUTS)
    assert config.bucket_degree == 2
    assert BucketModelConfig(kernel, func_kwargs=[{}, {}, {}]).bucket_degree == 3


def test_a_kernel_is_a_function():
    with pytest.raises(BadInput, match="BucketModelConfig of 'kernel'; legal: a function"):
        BucketModelConfig("kernel")
