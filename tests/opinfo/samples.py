"""PyTorch's own sample calls, copied to a device storage by storage, and results side by side."""

import torch
from torch.utils._pytree import tree_flatten, tree_map

Tensor = torch.Tensor


class Copies:
    """Tensors copied to a device with their storages: views of one storage stay views of one."""

    def __init__(self, device):
        self.device = device
        self.storages = {}
        self.tensors = {}

    def of(self, value):
        """A nested structure with every tensor copied, and the CPU as a device replaced."""
        return tree_map(self._one, value)

    def _one(self, value):
        if isinstance(value, Tensor):
            if id(value) not in self.tensors:
                self.tensors[id(value)] = (value, self._copy(value))
            return self.tensors[id(value)][1]
        if isinstance(value, torch.device) or value == "cpu":
            return torch.device(self.device)
        return value

    def _copy(self, tensor):
        plain = tensor.detach()
        if plain.is_conj():
            return self._copy(plain.conj()).conj().requires_grad_(tensor.requires_grad)
        if plain.is_neg():
            return torch._neg_view(self._copy(torch._neg_view(plain)))
        if plain.layout is not torch.strided:
            return plain.clone().to(self.device).requires_grad_(tensor.requires_grad)
        storage = plain.untyped_storage()
        key = (storage._cdata, plain.dtype)
        if key not in self.storages:
            whole = torch.empty(0, dtype=plain.dtype).set_(storage)
            fresh = torch.empty(whole.shape, dtype=plain.dtype, device=self.device)
            self.storages[key] = fresh.copy_(whole)
        view = self.storages[key].as_strided(plain.shape, plain.stride(), plain.storage_offset())
        return view.detach().requires_grad_(tensor.requires_grad)


def tensors(value):
    """The tensors of a nested structure, in order."""
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, Tensor)]


def difference(found, expected, device="neuron"):
    """How a result of the device differs from the CPU's in words, or ""."""
    mine, theirs = tree_flatten(found)[0], tree_flatten(expected)[0]
    if len(mine) != len(theirs):
        return f"{len(mine)} results instead of {len(theirs)}"
    for one, other in zip(mine, theirs, strict=True):
        said = _of_one(one, other, device)
        if said:
            return said
    return ""


def _of_one(one, other, device):
    if not isinstance(other, Tensor):
        return _of_numbers(one, other)
    if one.device.type != device:
        return f"a result on {one.device}"
    for name in ("shape", "dtype", "layout"):
        if getattr(one, name) != getattr(other, name):
            return f"{name} {getattr(one, name)} instead of {getattr(other, name)}"
    is_dense = other.layout is torch.strided and other.numel() > 1
    if is_dense and one.stride() != other.stride():
        return f"strides {one.stride()} instead of {other.stride()}"
    try:
        torch.testing.assert_close(
            one.detach().cpu(), other.detach(), equal_nan=True, check_stride=False
        )
    except AssertionError as error:
        return "values: " + " ".join(str(error).split())[:160]
    return ""


def _of_numbers(one, other):
    """How two results that are no tensors differ; devices and generators do."""
    is_value = isinstance(other, int | float | complex | str)
    are_nan = one != one and other != other  # noqa: PLR0124  what NaN is
    if not is_value or one == other or are_nan:
        return ""
    is_close = isinstance(other, float) and abs(one - other) <= 1e-5 * abs(other)
    return "" if is_close else f"{one!r} instead of {other!r}"


def views(result, arguments):
    """For each result, the first argument whose storage it shares, with offset and strides."""
    given = [t for t in tensors(arguments) if t.layout is torch.strided and t.numel()]
    found = []
    for one in tensors(result):
        if one.layout is not torch.strided or not one.numel():
            continue
        place = one.untyped_storage().data_ptr()
        shared = [at for at, t in enumerate(given) if t.untyped_storage().data_ptr() == place]
        found.append((shared[0], one.storage_offset(), one.stride()) if shared else None)
    return found
