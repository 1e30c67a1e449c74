"""Names of torch_xla that are not here: absent to programs that ask, refused by name to others."""

import importlib

import pytest

from trnsim.errors import NotModelled
from trnsim.xla.absent_names import _TABLE


def test_every_absent_name_is_absent_and_says_what_is_there_instead():
    import torch_xla

    for public, names in _TABLE.items():
        is_of_cpp = public.endswith("_XLAC")
        module = torch_xla._XLAC if is_of_cpp else importlib.import_module(public)
        for name, (_, instead) in names.items():
            assert not hasattr(module, name), (public, name)
            assert getattr(module, name, 3) == 3
            with pytest.raises(AttributeError) as caught:
                getattr(module, name)
            assert isinstance(caught.value, NotModelled)
            assert f"{public}.{name}: " in str(caught.value)
            assert f"fix: {instead}" in str(caught.value)


def test_a_from_import_of_an_absent_name_is_an_import_error_that_says_why():
    with pytest.raises(ImportError, match="not modelled for PyTorch\n  fix: ranks: torchrun"):
        from torch_xla.distributed.spmd import Mesh
    with pytest.raises(ImportError, match=r"(?s)flattened vector.*flatten_parameters=True"):
        from torch_xla.distributed.fsdp import xla_flatten_params_wrapper
    with pytest.raises(ImportError, match="get_stablehlo: programs are not written"):
        from torch_xla.core.xla_model import get_stablehlo


def test_a_name_that_no_torch_xla_has_is_pythons_own_error():
    import torch_xla.core.xla_model as xm

    with pytest.raises(
        AttributeError, match=r"'torch_xla.core.xla_model' has no attribute 'nothing'"
    ):
        xm.nothing  # noqa: B018
    with pytest.raises(AttributeError, match="did you mean 'mark_step'"):
        xm.mark_steps  # noqa: B018
    with pytest.raises(ModuleNotFoundError, match=r"torch_xla\.nothing"):
        import torch_xla.nothing


USED = {
    "torch_xla": "device sync compile _XLAC",
    "torch_xla.core.xla_model": (
        "mark_step xla_device master_print rendezvous is_master_ordinal REDUCE_SUM save all_reduce "
        "all_gather xrt_world_size add_step_closure REDUCE_MAX get_ordinal optimizer_step "
        "get_local_ordinal set_rng_state mesh_reduce reduce_gradients reduce_scatter get_rng_state "
        "ToXlaTensorArena all_to_all send_cpu_data_to_device xla_device_kind REDUCE_MIN "
        "RateTracker get_memory_info collective_permute set_replication"
    ),
    "torch_xla.runtime": "global_ordinal world_size local_ordinal using_pjrt",
    "torch_xla.distributed.parallel_loader": "MpDeviceLoader ParallelLoader",
    "torch_xla.distributed.xla_multiprocessing": "spawn",
    "torch_xla.distributed": "ZeroRedundancyOptimizer",
    "torch_xla.distributed.zero_redundancy_optimizer": "ZeroRedundancyOptimizer",
    "torch_xla.distributed.fsdp": "XlaFullyShardedDataParallel checkpoint_module",
    "torch_xla.distributed.fsdp.wrap": "transformer_auto_wrap_policy size_based_auto_wrap_policy",
    "torch_xla.utils.checkpoint": "checkpoint",
    "torch_xla.utils.serialization": "load save TensorReference",
    "torch_xla.amp.syncfree": "SGD Adam AdamW",
    "torch_xla.experimental.pjrt": "using_pjrt world_size global_ordinal",
}


def test_every_name_that_public_programs_use_often_is_there():
    import torch_xla

    for public, names in USED.items():
        module = importlib.import_module(public)
        for name in names.split():
            assert hasattr(module, name), (public, name)
            exec(f"from {public} import {name}")  # noqa: S102  the statement of programs


def test_names_that_the_bindings_never_had_are_missing_as_of_any_module():
    import torch_xla

    assert not hasattr(torch_xla._XLAC, "no_such_name")
    assert not hasattr(torch_xla._XLAC, "_xla_warm_up_cache")
