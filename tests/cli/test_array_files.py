import ml_dtypes
import numpy as np
import pytest

from trnsim.cli import array_files
from trnsim.errors import BadInput

ONE, TWO = np.arange(4, dtype=np.float32), np.arange(6, dtype=np.int8).reshape(2, 3)


def saved(outputs, folder):
    paths = array_files.save(folder / "o.npy", outputs)
    assert {path.name for path in folder.iterdir()} == {path.name for path in paths}
    return {path.name: np.load(path) for path in paths}


def test_one_array_goes_to_the_file(tmp_path):
    found = saved(ONE, tmp_path)
    assert list(found) == ["o.npy"]
    assert found["o.npy"].dtype == np.float32
    assert found["o.npy"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [tuple, list])
def test_several_are_numbered(kind, tmp_path):
    found = saved(kind([ONE, TWO]), tmp_path)
    assert [(name, array.dtype.name, array.tolist()) for name, array in found.items()] == [
        ("o.npy", "float32", [0, 1, 2, 3]),
        ("o-1.npy", "int8", [[0, 1, 2], [3, 4, 5]]),
    ]


def test_those_of_a_dict_have_its_keys(tmp_path):
    found = saved({"a": ONE, "b/c": [TWO, ONE], 3: None}, tmp_path)
    assert [(name, array.dtype.name, array.tolist()) for name, array in found.items()] == [
        ("o-a.npy", "float32", [0, 1, 2, 3]),
        ("o-b_c.npy", "int8", [[0, 1, 2], [3, 4, 5]]),
        ("o-b_c-1.npy", "float32", [0, 1, 2, 3]),
    ]


def test_bfloat16_is_read_as_it_was_saved(tmp_path):
    array = np.array([1, -0.0, np.inf, 3.140625], ml_dtypes.bfloat16)
    array_files.save(tmp_path / "o.npy", array)
    read = array_files.load(tmp_path / "o.npy")
    assert read.dtype == ml_dtypes.bfloat16
    assert read.view(np.uint16).tolist() == array.view(np.uint16).tolist()


def test_tensors_of_pytorch_are_saved(tmp_path):
    torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
    wide, narrow = torch.tensor([1.0, 2.5], requires_grad=True), torch.tensor([3.0]).bfloat16()
    array_files.save(tmp_path / "o.npy", (wide, narrow))
    assert np.load(tmp_path / "o.npy").tolist() == [1.0, 2.5]
    assert array_files.load(tmp_path / "o-1.npy").astype(np.float32).tolist() == [3.0]


@pytest.mark.parametrize("nothing", [None, (), {}, [None]])
def test_nothing_is_refused(nothing, tmp_path):
    with pytest.raises(BadInput, match="the kernel returned nothing"):
        array_files.save(tmp_path / "o.npy", nothing)


def test_what_is_no_array_is_refused(tmp_path):
    with pytest.raises(BadInput, match="object cannot be saved as an array"):
        array_files.save(tmp_path / "o.npy", object())
    assert list(tmp_path.iterdir()) == []


def test_two_results_never_share_a_file(tmp_path):
    with pytest.raises(BadInput, match="two results would have the same file"):
        array_files.save(tmp_path / "o.npy", {"a b": ONE, "a/b": TWO})
    assert list(tmp_path.iterdir()) == []


def test_leaves_are_what_is_in_tuples_lists_and_dicts():
    assert array_files.leaves(({"a": 1, "b": [2, None]}, 3)) == [1, 2, 3]


@pytest.mark.parametrize("name", ["float8_e4m3", "float8_e5m2", "float8_e4m3fn"])
def test_a_float_of_eight_bits_is_read_again(name, tmp_path):
    values = np.array([0.5, -1.75, 3], getattr(ml_dtypes, name))
    array_files.save(tmp_path / "o.npy", values)
    read = array_files.load(tmp_path / "o.npy")
    assert (read.dtype, read.tolist()) == (np.float32, [0.5, -1.75, 3])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float32", "bfloat16"])
def test_a_tensor_is_read_again(name, tmp_path):
    torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
    array_files.save(tmp_path / "o.npy", torch.tensor([0.5, -1.75, 3]).to(getattr(torch, name)))
    assert array_files.load(tmp_path / "o.npy").tolist() == [0.5, -1.75, 3]
