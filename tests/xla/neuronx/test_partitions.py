import io

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from torch import nn

from trnsim.errors import BadInput, NotModelled
from trnsim.xla.neuronx.partitions import PartitionerConfig
from trnsim.xla.neuronx.trace import trace

X = torch.randn(3, 8)

pytestmark = [
    pytest.mark.slow,  # each compiles several programs
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
]


class Sorted(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 4), nn.Linear(4, 4)

    def forward(self, x):
        order, _ = torch.sort(self.first(x))
        return self.second(order), order


def parts(traced):
    return [name for name, _ in traced.named_children()]


def test_named_operators_run_on_the_host_between_programs_of_the_chip(tmp_path):
    model = Sorted()
    config = PartitionerConfig(
        ops_to_partition={"aten::sort"}, trace_kwargs={"compiler_workdir": tmp_path}
    )
    traced = trace(model, X, partitioner_config=config)
    assert parts(traced) == ["neuron_0", "cpu_1", "neuron_2"]
    stream = io.BytesIO()
    torch.jit.save(traced, stream)
    stream.seek(0)
    for module in (traced, torch.jit.load(stream)):
        for actual, expected in zip(module(X), model(X), strict=True):
            torch.testing.assert_close(actual, expected.detach())
    assert {path.name for path in tmp_path.iterdir()} == {"neuron_0", "neuron_2"}


def test_operators_that_the_chip_lacks_go_to_the_host_by_themselves():
    def function(x):
        return torch.linalg.det(x[:, :3] * 2) + 1

    traced = trace(function, X, partitioner_config=PartitionerConfig())
    assert any(name.startswith("cpu") for name in parts(traced))
    torch.testing.assert_close(traced(X), function(X))


def test_a_model_that_the_chip_computes_is_one_program():
    assert parts(trace(Sorted(), X, partitioner_config=PartitionerConfig())) == ["neuron_0"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"model_support_percentage_threshold": 1.0}, "threshold=1 asks for 100%"),
        ({"max_subgraph_count": 2}, "cut into 3 subgraphs; max_subgraph_count=2"),
        ({"min_subgraph_size": 4}, "a subgraph has 1 operator; min_subgraph_size=4"),
    ],
)
def test_a_partition_beyond_the_limits_is_a_value_error(options, match):
    config = PartitionerConfig(ops_to_partition={"aten::sort"}, **options)
    with pytest.raises(ValueError, match=match):
        trace(Sorted(), X, partitioner_config=config)


@pytest.mark.parametrize(
    "options",
    [
        {"model_support_percentage_threshold": 1.1},
        {"min_subgraph_size": 0},
        {"max_subgraph_count": -2},
        {"trace_kwargs": 5},
        {"ops_to_partition": "aten::sort"},
        {"ops_to_partition": 5},
        {"analyze_parameters": ["aten::sort"]},
        {"analyze_parameters": {"additional_ignored_ops": "aten::sort"}},
        {"analyze_parameters": {"additional_ignored_ops": [3]}},
        {"trace_kwargs": {"compiler_flags": "--auto-cast=none"}},
    ],
)
def test_a_rule_that_is_none_is_refused(options):
    with pytest.raises(BadInput, match="legal"):
        PartitionerConfig(**options)


def test_a_weight_that_is_returned_is_refused():
    weight = torch.ones(2)
    with pytest.raises(BadInput, match="returns a weight"):
        trace(lambda x: (x + 1, weight), X, partitioner_config=PartitionerConfig())


def test_a_configuration_is_one():
    with pytest.raises(BadInput, match="partitioner_config is a dict; legal: a PartitionerConfig"):
        trace(lambda x: x + 1, X, partitioner_config={"min_subgraph_size": 1})


def test_results_of_an_operator_are_no_operators():
    """Of one operator for the host with two results, the chip was said to compute two thirds."""

    def ordered(x):
        return torch.sort(x)

    config = PartitionerConfig(ops_to_partition={"aten::sort"})
    with pytest.raises(ValueError, match="computes 0% of the 1 operator"):
        trace(ordered, torch.ones(4), partitioner_config=config)


def test_what_no_partition_has_is_refused():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(4))

        def forward(self, x):
            return x + self.count, self.count + 1

    model, config = Counting(), PartitionerConfig()
    for name, value in (
        ("input_output_aliases", {model.count: 1}),
        ("inline_weights_to_neff", False),
        ("cpu_backend", True),
    ):
        with pytest.raises(NotModelled, match=f"with partitioner_config and {name}"):
            trace(model, torch.ones(4), partitioner_config=config, **{name: value})


@pytest.mark.parametrize("name", ["model_support_percentage_threshold", "min_subgraph_size"])
def test_a_text_is_no_number_of_a_partition(name):
    with pytest.raises(ValueError, match=f"{name}='2'"):
        PartitionerConfig(**{name: "2"})


def test_arguments_of_a_whole_model_are_refused_in_trace_kwargs_too():
    whole = {"inline_weights_to_neff": True, "cpu_backend": False}
    assert parts(trace(Sorted(), X, partitioner_config=PartitionerConfig(trace_kwargs=whole)))
    apart = PartitionerConfig(trace_kwargs={"inline_weights_to_neff": False})
    with pytest.raises(NotModelled, match="inline_weights_to_neff: a model in parts has none"):
        trace(Sorted(), X, partitioner_config=apart)
