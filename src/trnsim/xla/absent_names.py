"""Names of `torch_xla` that are not here, each with the reason and its replacement.

`hasattr` is False for them, and a from-import raises an ImportError (note 0035). The names are the
public names of torch_xla 2.9.0, and names of older releases that programs still use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trnsim.absence import Absence, AbsentAttribute, AbsentNames, RefusedImport

__all__ = ["AbsentAttribute", "RefusedImport", "absence_getter"]

_LATER: Final = "operators run at once, and programs are compiled beside them"
_SPMD: Final = "sharding by annotations is not modelled for PyTorch"
_TPU: Final = "it is of TPUs and GPUs"
_PLAIN: Final = "it is of plain Python, and no program of AWS's uses it"
_SOURCE: Final = "torch_xla 2.9.0, {}"

_NO_SPMD: Final = "ranks: torchrun, and torch.distributed or xm's collectives; or JAX, which shards"
_NO_GRAPH: Final = "trnsim compile, which writes the graph of a model, its time and its memory"

_BUILDER: Final = "programs are not built of operations of HLO"
_DIFFERENTIABLE: Final = "torch.distributed.nn.functional"
_METRICS: Final = "torch_xla.debug.metrics.metrics_report()"
_CUTS: Final = "trnsim run FILE --report DIR, which has each cut and its cause"

_PATCHED: Final = ("it is a part of torch_xla's own graphs", "torch.nn.Linear")

_TABLE: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "torch_xla": {
        "set_custom_compile_options": (_LATER, "NEURON_CC_FLAGS"),
        "stablehlo": ("programs are not written as StableHLO", _NO_GRAPH),
        "tf_saved_model_integration": ("there is no TensorFlow here", "torch.export.save"),
    },
    "torch_xla._XLAC": {
        "_get_xla_tensors_hlo": (_LATER, _NO_GRAPH),
        "_get_xla_tensors_dot": (_LATER, _NO_GRAPH),
        "_get_xla_tensors_debug_info": (_LATER, _NO_GRAPH),
        "_get_graph_hash": (_LATER, _NO_GRAPH),
        "_xla_warm_up_cache": (_LATER, "nothing: operators run at once"),
    },
    "torch_xla.core": {
        "functions": ("collectives with gradients are PyTorch's", _DIFFERENTIABLE),
        "xla_builder": (_BUILDER, "torch_neuronx.xla_hlo_call, or a kernel of nki"),
        "xla_op_registry": (_BUILDER, "torch_neuronx.xla_hlo_call, or a kernel of nki"),
    },
    "torch_xla.debug": {
        "model_comparator": ("two runs are not compared by files", "torch.testing.assert_close"),
        "metrics_compare_utils": ("reports of two runs are not compared", _METRICS),
        "metrics_saver": ("metrics are not saved as files", _METRICS),
        "graph_saver": ("graphs are not saved at each step", _CUTS),
        "frame_parser_util": (_LATER, _CUTS),
    },
    "torch_xla.core.xla_model": {
        "get_stablehlo": ("programs are not written as StableHLO", _NO_GRAPH),
        "get_stablehlo_bytecode": ("programs are not written as StableHLO", _NO_GRAPH),
        "all_gather_bucketized": ("buckets of collectives are not here", "xm.all_gather"),
        "reduce_scatter_bucketized": ("buckets of collectives are not here", "xm.reduce_scatter"),
        "send": ("channels of messages are not here", "torch.distributed.send"),
        "recv": ("channels of messages are not here", "torch.distributed.recv"),
        "xla_replication_devices": ("a process has one device", "xr.world_size()"),
        "check_view_sharing": ("views are those of PyTorch", "torch.Tensor.untyped_storage"),
        "DeviceContext": ("it is a part of lazy tensors", "xm.add_step_closure"),
        "CoalescingBuckets": ("buckets of collectives are not here", "xm.all_reduce of a list"),
    },
    "torch_xla.runtime": {
        "use_spmd": (_SPMD, _NO_SPMD),
        "get_master_ip": (_TPU, "the variable MASTER_ADDR"),
        "initialize_cache": (_LATER, "nothing: operators run at once"),
        "get_num_cached_compilation_graph": (_LATER, "trnsim compile"),
        "runtime_device_attributes": (_TPU, "torch.neuron.get_device_properties()"),
        "global_runtime_device_attributes": (_TPU, "torch.neuron.get_device_properties()"),
    },
    "torch_xla.distributed": {
        "data_parallel": ("it went with torch_xla 2.0", "torchrun and xm.optimizer_step"),
        "xla_dist": ("it went with torch_xla 2.0", "torchrun"),
    },
    "torch_xla.distributed.fsdp": {
        "xla_flatten_params_wrapper": (
            "a flattened vector is a part of the wrapper",
            "XlaFullyShardedDataParallel(module, flatten_parameters=True)",
        ),
    },
    "torch_xla.distributed.fsdp.utils": {
        "XLAPatchedLinear": _PATCHED,
        "apply_xla_patch_to_nn_linear": _PATCHED,
    },
    "torch_xla.distributed.spmd": dict.fromkeys(
        (
            *("Mesh", "HybridMesh", "mark_sharding", "clear_sharding", "set_global_mesh"),
            *("get_global_mesh", "ShardingSpec", "ShardingType", "XLAShardedTensor", "XLAShard"),
            *("enable_manual_sharding", "disable_manual_sharding", "xla_patched_nn_linear_forward"),
            *("apply_backward_optimization_barrier", "wrap_as_sharded_tensor", "xla_sharding"),
            *("mark_sharding_with_gradients", "get_1d_mesh", "auto_policy", "api", "debugging"),
        ),
        (_SPMD, _NO_SPMD),
    ),
    "torch_xla.debug.profiler": dict.fromkeys(
        (
            *("start_server", "trace", "trace_detached", "start_trace", "stop_trace"),
            *("set_tracer_marked_step", "get_tracer_marked_step"),
        ),
        ("the server and traces of torch_xla's profiler are not here", "torch.profiler"),
    ),
    "torch_xla.test.test_utils": {
        "mp_test": ("it is of torch_xla's own tests", "torch_xla.launch"),
        **dict.fromkeys(
            ("get_summary_writer", "write_to_summary", "close_summary_writer"),
            ("TensorBoard is the program's own", "torch.utils.tensorboard.SummaryWriter"),
        ),
    },
    "torch_xla.utils.utils": {
        name: (_PLAIN, instead)
        for name, instead in (
            ("FnDataGenerator", "torch.utils.data.DataLoader"),
            ("DataWrapper", "torch.utils.data.Dataset"),
            ("TmpFolder", "tempfile.TemporaryDirectory"),
            ("LazyProperty", "functools.cached_property"),
            ("Cleaner", "contextlib.ExitStack"),
            ("for_each_instance", "torch.utils._pytree.tree_map"),
            ("for_each_instance_rewrite", "torch.utils._pytree.tree_map"),
            ("shape", "torch.tensor(inputs).shape"),
            ("flatten_nested_tuple", "torch.utils._pytree.tree_flatten"),
            ("parallel_work", "concurrent.futures.ThreadPoolExecutor.map"),
        )
    },
    "torch_xla.distributed.xla_multiprocessing": {
        "create_optimized_replica_groups": (_TPU, "groups of xm.all_reduce"),
    },
    "torch_xla.experimental": {
        name: ("it is an experiment of torch_xla", instead)
        for name, instead in (
            ("eager_mode", "nothing: operators run at once"),
            ("compile", "torch.compile(backend='neuron')"),
            ("eager_mode_context", "nothing: operators run at once"),
            ("custom_kernel", "torch_neuronx.nki_op"),
            ("scan", "a loop"),
            ("assume_pure", "the function itself"),
            ("distributed_checkpoint", "torch.distributed.checkpoint"),
            ("scan_layers", "a loop"),
            ("fori_loop", "a loop"),
            ("gradient_accumulation", "a loop, and one optimizer step at its end"),
            ("splash_attention", "torch.nn.functional.scaled_dot_product_attention"),
            ("gru", "torch.nn.GRU"),
            ("eager", "nothing: operators run at once"),
            ("callback", "xm.add_step_closure"),
            ("plugins", "nothing: the device is there"),
            ("quantized", "a kernel of nki"),
            ("xla_quantized_matmul", "a kernel of nki"),
            ("pallas_kernels", "a kernel of nki"),
            ("spmd_fully_sharded_data_parallel", "XlaFullyShardedDataParallel"),
            ("stablehlo_custom_call", "torch_neuronx.xla_hlo_call"),
            ("mark_pattern_utils", _NO_GRAPH),
            ("unbounded_dynamism_export", _NO_GRAPH),
        )
    },
    "torch_xla.utils": {
        "buffer_donor_context": (_LATER, "nothing: what is written over is donated"),
        "checkpoint_tagger": (_LATER, "torch.utils.checkpoint"),
        "closures": (_PLAIN, "xm.add_step_closure(run_async=True)"),
        "dlpack": ("memory is not shared with other frameworks", "Tensor.cpu, then from_dlpack"),
        "keyd_queue": (_PLAIN, "queue.Queue"),
        "stablehlo_test_utils": ("programs are not written as StableHLO", _NO_GRAPH),
    },
}


def absence_getter(
    public: str, module: str, further_names: Mapping[str, tuple[str, str]] | None = None
) -> Any:
    """A `__getattr__` for a module of ours, which refuses names that only the real module has.

    Args:
        public: the module's name in programs.
        module: the module's name in trnsim.
        further_names: further names to refuse, each with the reason and its replacement.
    """
    table = _TABLE.get(public, {}) | dict(further_names or {})

    def explain(name: str) -> Absence | None:
        row = table.get(name)
        if row is None:
            return None
        reason, replacement = row
        return Absence(f"{public}.{name}: {reason}", replacement, _SOURCE.format(public))

    # A from-import asks by either name.
    names = AbsentNames(module, public, explain)
    AbsentNames(public, public, explain)
    return names.serve
