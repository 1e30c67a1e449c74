"""Every name with five uses or more in public programs, from where programs import it."""

import importlib

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch_neuronx

from trnsim.errors import NotModelled
from trnsim.torch.traces.instances import loading

THERE = {
    "": (
        *("trace", "DataParallel", "async_load", "lazy_load", "BucketModelConfig", "__version__"),
        *("set_neuron_cores", "move_trace_to_device", "analyze", "PartitionerConfig", "nki_jit"),
        *("neuron_cores_context", "bucket_model_trace", "replace_weights", "dynamic_batch"),
        *("set_multicore", "multicore_context", "xla_hlo_call", "nki", "nki_op"),
    ),
    ".testing": ("assert_close", "neuron_allclose"),
    ".testing.validation": (
        *("assert_close", "custom_allclose", "logit_validation", "neuron_allclose"),
        *("AllCloseSummary", "DEFAULT_TOLERANCE_MAP", "DEFAULT_DIVERGENCE_DIFFERENCE_TOLERANCE"),
    ),
    ".utils": ("get_platform_target",),
    ".experimental.profiler": ("profile",),
    ".experimental.profiler.v2_x.custom_op_name": ("hlo_debug",),
    ".experimental": ("set_neuron_cores", "neuron_cores_context", "multicore_context"),
    ".xla_impl.ops": ("nki_jit", "RmsNorm", "xla_hlo_call", "TopK", "Argmax", "Softmax"),
    ".xla_impl.base": ("xla_call", "xla_hlo_call"),
    ".xla_impl.trace": ("trace", "HloArtifacts", "NeffArtifacts", "create_neuron_model", "_trace"),
    ".xla_impl.data_parallel": ("DataParallel",),
    ".xla_impl.bucket_trace": ("create_bucket_model",),
    ".xla_impl.torchscript": ("replace_weights",),
    ".xla_impl.custom_call_targets": ("AwsNeuronModuleMarkerStartForward",),
    ".contexts": ("disable_nrt_load",),
    ".proto": ("metaneff_pb2",),
    ".pyhlo": ("hlo_pb2", "xla_data_pb2"),
}
REFUSED = {
    "": ("Stream", "stream", "synchronize", "profiling"),
    ".xla_impl.custom_op": ("load",),
    ".xla_impl.trace": ("setup_compiler_dirs", "get_compile_command", "save_compile_command"),
}


@pytest.mark.parametrize("module", THERE)
def test_names_are_there(module):
    found = importlib.import_module(f"torch_neuronx{module}")
    assert [name for name in THERE[module] if not hasattr(found, name)] == []


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in REFUSED.items() for name in names]
)
def test_other_names_say_what_is_there_instead(module, name):
    found = importlib.import_module(f"torch_neuronx{module}")
    assert not hasattr(found, name)
    with pytest.raises(AttributeError, match=rf"torch_neuronx{module}\.{name}: "):
        getattr(found, name)
    with pytest.raises(ImportError):
        exec(f"from torch_neuronx{module} import {name}")  # noqa: S102  the statement under test


def test_nothing_is_loaded_within_the_context():
    with torch_neuronx.contexts.disable_nrt_load():
        assert loading.is_off
    assert not loading.is_off


def test_operations_are_named_without_the_context_for_it():
    """NxD's ModelBuilder imports it where it is loaded."""
    from torch_neuronx.experimental.profiler.v2_x.custom_op_name import hlo_debug

    with hlo_debug(add_var_names=True, monitor_modules_list=["a"]):
        pass


@pytest.mark.parametrize("name", ["hlo_entry_computation", "get_hlo_root_instruction"])
def test_what_reads_protobufs_of_hlo_is_imported_and_refused_where_it_is_called(name):
    module = importlib.import_module("torch_neuronx.xla_impl.trace")
    with pytest.raises(NotModelled, match=rf"xla_impl\.trace\.{name}: programs here are no"):
        getattr(module, name)(None)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_a_name_that_nothing_has_is_one_of_the_module_that_was_asked():
    torch_neuronx = importlib.import_module("torch_neuronx")
    with pytest.raises(AttributeError, match=r"^module 'torch_neuronx' has no attribute 'nothing'"):
        torch_neuronx.nothing  # noqa: B018
