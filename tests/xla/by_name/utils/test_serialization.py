"""A file for each tensor: places, contents, and ranks that write none."""

import os

import pytest
import torch


def test_tensors_lie_beside_the_value_and_load_to_the_host(tmp_path):
    import torch_xla.utils.serialization as xser

    shared = torch.arange(3, device="xla")
    data = {"a": shared, "again": shared, "b": [torch.ones(2, device="xla"), "text"], "c": 3}
    xser.save(data, str(tmp_path / "state"))
    files = sorted(path.name for path in (tmp_path / "state.tensors").iterdir())
    assert files == ["tensor_0.pt", "tensor_1.pt"]
    assert torch.load(tmp_path / "state.tensors" / "tensor_0.pt").device.type == "cpu"
    loaded = xser.load(str(tmp_path / "state"))
    assert loaded["a"].tolist() == [0, 1, 2]
    assert loaded["a"] is not shared
    assert loaded["b"][0].device.type == "cpu"
    assert loaded["b"][1] == "text"
    assert loaded["c"] == 3


def test_a_second_save_leaves_no_tensor_of_the_first(tmp_path):
    import torch_xla.utils.serialization as xser

    path = tmp_path / "state"
    xser.save([torch.ones(1, device="xla"), torch.zeros(1, device="xla")], path)
    xser.save([torch.ones(1, device="xla")], path)
    assert [file.name for file in (tmp_path / "state.tensors").iterdir()] == ["tensor_0.pt"]


@pytest.mark.parametrize(
    ("options", "is_written"),
    [({}, False), ({"master_only": False}, True), ({"global_master": True}, False)],
)
def test_only_the_first_rank_writes_unless_all_do(tmp_path, options, is_written):
    import torch_xla.utils.serialization as xser

    os.environ.update(RANK="1", LOCAL_RANK="1", WORLD_SIZE="2")
    xser.save([torch.ones(1)], tmp_path / "state", **options)
    assert (tmp_path / "state").exists() is is_written


def test_the_references_are_named_as_torch_xlas():
    import torch_xla.utils.serialization as xser

    reference = xser.TensorReference(4)
    assert reference.tid == 4
    assert type(reference).__module__ == "torch_xla.utils.serialization"


def test_the_places_of_tensors_are_those_that_nxd_writes_to(tmp_path):
    from torch_xla.utils import serialization as xser

    path = str(tmp_path / "model.pt")
    xser.save({"a": torch.ones(2, device="xla")}, path)
    folder = xser._get_tensors_folder(path)
    assert folder == f"{path}.tensors"
    assert torch.load(xser._get_tensor_file(folder, 0)).tolist() == [1.0, 1.0]


def test_what_cannot_be_loaded_is_said_with_what_a_save_leaves(tmp_path):
    import torch_xla.utils.serialization as xser

    path = tmp_path / "state"
    with pytest.raises(FileNotFoundError) as raised:
        xser.load(path)
    assert f"that file, and {path}.tensors" in raised.value.__notes__[0]
    assert f"at {__file__}:" in raised.value.__notes__[0]
    xser.save([torch.ones(1, device="xla")], path)
    (tmp_path / "state.tensors" / "tensor_0.pt").unlink()
    with pytest.raises(FileNotFoundError, match=r"tensor_0\.pt") as raised:
        xser.load(path)
    assert "fix: copy both" in raised.value.__notes__[0]


def test_a_save_computes_all_tensors_by_one_program(tmp_path):
    """One for each tensor was counted; torch_xla syncs them all before it writes."""
    import torch_xla
    import torch_xla.utils.serialization as xser

    from trnsim.xla.cuts.cutting import cuts

    tensors = [torch.ones(3, device="xla") * factor for factor in (2, 3, 4)]
    torch_xla.sync()
    tensors = [tensor + 0.5 for tensor in tensors]
    before = sum(record.executions for record in cuts.ledger.programs.values())
    xser.save(tensors, tmp_path / "state")
    after = sum(record.executions for record in cuts.ledger.programs.values())
    assert after - before == 1
    assert [tensor.tolist() for tensor in xser.load(tmp_path / "state")] == [
        *([2.5] * 3, [3.5] * 3, [4.5] * 3)
    ]
