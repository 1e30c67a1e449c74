"""`python -m` of torch_xla's modules: what programs execute, and what is refused by name."""

import runpy
import sys
import warnings

import pytest
import torch


def execute(module, *arguments):
    """`python -m module arguments`, with warnings as errors."""
    sys.argv = [module, *arguments]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def test_files_of_ranks_are_put_together_by_a_command(tmp_path):
    module = "torch_xla.distributed.fsdp.consolidate_sharded_ckpts"
    with pytest.raises(SystemExit) as ended:
        execute(module, "--help")
    assert ended.value.code == 0
    with pytest.raises(SystemExit) as ended:
        execute(module)
    assert ended.value.code == 2
    with pytest.raises(ValueError, match=r"has files of ranks \[\]"):
        execute(module, "--ckpt_prefix", str(tmp_path / "rank-"))
    metadata = {"shard_info": {}, "buffer_info": {}, "world_size": 1, "rank": 0}
    torch.save({"model": {"w": torch.ones(3)}, "shard_metadata": metadata}, tmp_path / "rank-0.pth")
    execute(module, "--ckpt_prefix", str(tmp_path / "rank-"), "--save_path", str(tmp_path / "all"))
    assert torch.equal(torch.load(tmp_path / "all")["model"]["w"], torch.ones(3))


@pytest.mark.parametrize(
    ("module", "fix"),
    [
        ("torch_xla.debug.model_comparator", "assert_close"),
        ("torch_xla.tf_saved_model_integration", "torch.export.save"),
        ("torch_xla.distributed.xla_dist", "torchrun"),
    ],
)
def test_commands_that_are_not_here_are_refused_by_name(module, fix):
    with pytest.raises(ImportError, match=rf"(?s){module}: .*fix: .*{fix}"):
        execute(module, "--help")
