"""Shares put together: by metadata of ours and of torch_xla, from files, and some that lack."""

import pytest
import torch

NAME = "_fsdp_shard_FSDP_SHARD_SEPARATOR_w"
KEY = "layer._fsdp_wrapped_module"


def states(count=2):
    """States of two ranks as torch_xla writes them, without our names of members."""
    metadata = {
        "shard_info": {"layer": {NAME: {"_orig_size": (2, 3), "_orig_name": "w"}}},
        "buffer_info": {"b": {"_orig_dtype": torch.float32}},
        "world_size": count,
    }
    vector = torch.arange(8.0)
    return [
        {
            "model": {f"layer.{NAME}": share, "b": torch.ones(1, dtype=torch.bfloat16)},
            "shard_metadata": metadata | {"rank": rank},
        }
        for rank, share in enumerate(vector.chunk(2))
    ]


def test_shares_are_put_together_in_the_order_of_ranks():
    from trnsim.xla.by_name.distributed.fsdp import state_dict_utils

    parts = states()
    whole = state_dict_utils.consolidate_sharded_state_dicts(
        [part["model"] for part in parts], parts[0]["shard_metadata"]
    )
    assert whole["layer.w"].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert whole["b"].dtype is torch.float32
    with pytest.raises(ValueError, match="1 states of a model that 2 ranks share"):
        state_dict_utils.consolidate_sharded_state_dicts(
            [parts[0]["model"]], parts[0]["shard_metadata"]
        )


def test_files_of_all_ranks_are_put_together_and_some_are_refused(tmp_path):
    from trnsim.xla.by_name.distributed.fsdp import consolidate_sharded_ckpts, state_dict_utils

    for number, state in enumerate(reversed(states())):
        torch.save(state, tmp_path / f"rank-{number}.pth")
    prefix = str(tmp_path / "rank-")
    whole, written = state_dict_utils.consolidate_sharded_model_checkpoints(prefix)
    assert written == f"{prefix}_consolidated.pth"
    assert torch.equal(torch.load(written)["model"]["layer.w"], whole["layer.w"])
    consolidate_sharded_ckpts.main(
        ["--ckpt_prefix", prefix, "--ckpt_suffix", "?.pth", "--save_path", str(tmp_path / "all")]
    )
    assert torch.equal(torch.load(tmp_path / "all")["model"]["layer.w"], whole["layer.w"])
    (tmp_path / "rank-0.pth").unlink()
    with pytest.raises(ValueError, match=r"has files of ranks \[0\], of 2"):
        state_dict_utils.consolidate_sharded_model_checkpoints(prefix, "?.pth", save_model=False)
    with pytest.raises(ValueError, match=r"has files of ranks \[\]"):
        state_dict_utils.consolidate_sharded_model_checkpoints(f"{prefix}none", save_model=False)


def test_a_file_that_is_no_share_is_refused(tmp_path):
    """A second run finds the file that the first one wrote."""
    from torch_xla.distributed.fsdp import consolidate_sharded_model_checkpoints

    torch.save({"model": {}}, tmp_path / "ckpt_consolidated.pth")
    with pytest.raises(ValueError, match="has no share of a model; legal: a dictionary of model"):
        consolidate_sharded_model_checkpoints(str(tmp_path / "ckpt"))
