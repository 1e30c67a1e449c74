"""Tensors of the device: what they say of themselves, and the host's beside them.

Each function is a program, as in cut_programs.py.
"""

import copy
import io
import pickle

import torch
import torch_xla
from torch import nn


def outcome(function, *args, **options):
    """A function's result, or the kind of its error."""
    try:
        return function(*args, **options)
    except Exception as error:  # noqa: BLE001  the error is the answer
        kinds = (NotImplementedError, RuntimeError, TypeError, ValueError, AttributeError)
        return next((kind.__name__ for kind in kinds if isinstance(error, kind)), "another error")


def what_a_tensor_says(device):
    """Tensors are on xla:0, of type torch.Tensor, is_xla, with a data_ptr of 0."""
    t = torch.ones(2).to(device)
    return [
        str(t.device),
        t.device.type,
        t.device.index,
        type(t) is torch.Tensor,
        t.is_xla,
        t.is_cpu,
        t.is_cuda,
        t.is_contiguous(),
        list(t.stride()),
        t.storage_offset(),
        t.layout == torch.strided,
        t.get_device(),
        str(t.dtype),
        t.is_leaf,
        t.requires_grad,
        t.element_size(),
        t.nbytes,
    ]


def the_address_of_a_tensor(device):
    """data_ptr is 0."""
    return torch.ones(2).to(device).data_ptr()


def the_address_of_a_view(device):
    """data_ptr of a view is 0 too."""
    return torch.ones(2, 3).to(device)[1].data_ptr()


def the_device_by_its_names(device):
    """The ways to name the device."""
    places = ("xla", "xla:0", torch.device("xla"), torch.device("xla", 0), torch_xla.device())
    return [[str(torch.ones(1).to(place).device), str(torch.device(place))] for place in places]


def a_device_in_a_context(device):
    """A default device."""
    with torch.device("xla"):
        return [str(torch.ones(2).device), torch.arange(3)]


def the_type_of_a_tensor(device):
    """type() of a tensor."""
    return [torch.ones(2).to(device).type(), outcome(torch.ones(2).to(device).type, torch.int32)]


def a_tensor_that_is_there(device):
    """`.to` of a tensor that is on the device."""
    t = torch.ones(2).to(device)
    return [t.to(device) is t, t.to("xla") is t, t.to(t) is t, t.to(device, copy=True) is t]


def a_copy_and_a_pickle(device):
    """deepcopy and pickle."""
    t = torch.ones(2).to(device)
    return [str(copy.deepcopy(t).device), str(pickle.loads(pickle.dumps(t)).device)]  # noqa: S301


def a_tensor_saved_and_loaded(device):
    """torch.save and torch.load."""
    file = io.BytesIO()
    torch.save({"a": torch.ones(2).to(device)}, file)
    places = []
    for place in (None, "cpu"):
        file.seek(0)
        places.append(str(torch.load(file, map_location=place)["a"].device))
    return places


def numpy_of_a_tensor(device):
    """numpy() of a tensor of the device."""
    return outcome(torch.ones(2).to(device).numpy)


def as_an_array(device):
    """numpy.asarray of a tensor of the device."""
    import numpy as np

    return outcome(lambda: np.asarray(torch.ones(2).to(device)).tolist())


def mixed(device, name, *others):
    """An operator with the host's tensor first, second, and the device it answers on."""
    there, here = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).to(device), torch.full((2, 2), 0.5)
    function = getattr(torch, name)
    results = []
    for pair in ((there, here), (here, there)):
        result = outcome(function, *pair, *others)
        if isinstance(result, torch.Tensor):
            result = [str(result.device), result]
        results.append(result)
    return results


def a_host_tensor_in_arithmetic(device):
    """Elementwise operators take a tensor of the host."""
    names = (
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "maximum",
        "minimum",
        "atan2",
        "fmod",
        "remainder",
        "floor_divide",
        "true_divide",
        "hypot",
        "logaddexp",
        "copysign",
    )
    return {name: mixed(device, name) for name in names}


def a_host_tensor_compared(device):
    """Comparisons with a tensor of the host."""
    names = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor")
    return {name: mixed(device, name) for name in names}


def a_host_tensor_in_products(device):
    """mm, bmm, matmul and their kin with a tensor of the host."""
    return {name: mixed(device, name) for name in ("mm", "matmul", "dot", "mv", "outer", "kron")}


def a_host_tensor_concatenated(device):
    """cat and stack of tensors of both."""
    there, here = torch.ones(2).to(device), torch.zeros(2)
    results = []
    for function in (torch.cat, torch.stack, torch.hstack):
        for parts in ([there, here], [here, there]):
            result = outcome(function, parts)
            is_tensor = isinstance(result, torch.Tensor)
            results.append([str(result.device), result] if is_tensor else result)
    return results


def a_host_tensor_in_place(device):
    """In-place operators with a tensor of the host."""
    results = []
    for name in ("add_", "mul_", "sub_", "div_", "copy_"):
        there, here = torch.ones(2).to(device), torch.full((2,), 3.0)
        result = outcome(getattr(there, name), here)
        results.append([name, there if isinstance(result, torch.Tensor) else result])
    return results


def a_device_tensor_into_the_host(device):
    """In-place operators of a host's tensor with one of the device."""
    results = []
    for name in ("add_", "mul_", "copy_"):
        there, here = torch.ones(2).to(device), torch.full((2,), 3.0)
        result = outcome(getattr(here, name), there)
        shown = [str(here.device), here.tolist()] if isinstance(result, torch.Tensor) else result
        results.append([name, shown])
    return results


def a_host_tensor_in_where(device):
    """where with tensors of both."""
    there, here = torch.ones(2).to(device), torch.zeros(2)
    mask = torch.tensor([True, False])
    results = []
    for parts in (
        (mask.to(device), there, here),
        (mask.to(device), here, there),
        (mask, there, there),
        (mask, here, there),
    ):
        result = outcome(torch.where, *parts)
        is_tensor = isinstance(result, torch.Tensor)
        results.append([str(result.device), result] if is_tensor else result)
    return results


def a_host_tensor_as_an_index(device):
    """Indices on the host, and indices on the device of a tensor of the host."""
    there, at = torch.arange(4.0).to(device), torch.tensor([1, 2])
    results = [
        outcome(lambda: there[at]),
        outcome(torch.index_select, there, 0, at),
        outcome(torch.gather, there, 0, at),
        outcome(lambda: torch.arange(4.0)[at.to(device)]),
        outcome(lambda: there[torch.tensor([True, False, True, False])]),
        outcome(torch.take, there, at),
    ]
    return [[str(r.device), r] if isinstance(r, torch.Tensor) else r for r in results]


def a_host_tensor_in_layers(device):
    """Layers of the device with inputs of the host."""
    batch = torch.ones(1, 2)
    image = torch.ones(1, 1, 4, 4)
    layers = {
        "linear": (nn.Linear(2, 2), batch),
        "conv": (nn.Conv2d(1, 1, 3), image),
        "embedding": (nn.Embedding(3, 2), torch.tensor([1])),
        "layer_norm": (nn.LayerNorm(2), batch),
        "batch_norm": (nn.BatchNorm1d(2).eval(), batch),
        "prelu": (nn.PReLU(), batch),
    }
    results = {}
    for name, (layer, value) in layers.items():
        layer.to(device)
        result = outcome(layer, value)
        results[name] = str(result.device) if isinstance(result, torch.Tensor) else result
    return results


def a_host_tensor_in_losses(device):
    """Losses of the device with targets of the host."""
    f = nn.functional
    there = torch.tensor([[0.5, 1.0], [2.0, 0.0]]).to(device)
    results = {
        "mse_loss": outcome(f.mse_loss, there, torch.ones(2, 2)),
        "l1_loss": outcome(f.l1_loss, there, torch.ones(2, 2)),
        "cross_entropy": outcome(f.cross_entropy, there, torch.tensor([0, 1])),
        "bce": outcome(f.binary_cross_entropy_with_logits, there, torch.ones(2, 2)),
        "smooth_l1_loss": outcome(f.smooth_l1_loss, there, torch.ones(2, 2)),
        "kl_div": outcome(f.kl_div, there, torch.ones(2, 2)),
    }
    return {n: [str(r.device), r] if isinstance(r, torch.Tensor) else r for n, r in results.items()}


def fused(place, form):
    """The result of an operator of several tensors, some of the host, or its error."""
    there, here = torch.full((2,), 2.0).to(place), torch.full((2,), 0.5)
    square = torch.ones(1, 2, 2).to(place)
    result = outcome(form, there, here, square)
    return [str(result.device), result] if isinstance(result, torch.Tensor) else result


def addcmul_with_a_host_tensor(device):
    """addcmul with a tensor of the host."""
    return [
        fused(device, lambda there, here, _: torch.addcmul(there, there, here)),
        fused(device, lambda there, here, _: torch.addcmul(here, there, there)),
    ]


def addcdiv_with_a_host_tensor(device):
    """addcdiv with a tensor of the host."""
    return fused(device, lambda there, here, _: torch.addcdiv(there, there, here))


def lerp_with_a_host_tensor(device):
    """lerp with a tensor of the host."""
    return [
        fused(device, lambda there, here, _: torch.lerp(there, here, 0.5)),
        fused(device, lambda there, here, _: torch.lerp(there, there, here)),
    ]


def clamp_with_a_host_tensor(device):
    """clamp with a tensor of the host."""
    return fused(device, lambda there, here, _: torch.clamp(there, here))


def masked_fill_with_a_host_mask(device):
    """masked_fill with a mask of the host."""
    mask = torch.tensor([True, False])
    return fused(device, lambda there, here, _: torch.masked_fill(there, mask, 7.0))


def products_with_a_host_tensor(device):
    """addmm, baddbmm and bmm with a tensor of the host."""
    return [
        fused(device, lambda a, b, c: torch.addmm(b, c[0], c[0])),
        fused(device, lambda a, b, c: torch.baddbmm(b, c, c)),
        fused(device, lambda a, b, c: torch.bmm(torch.ones(1, 2, 2), c)),
    ]


def scatter_with_a_host_index(device):
    """scatter with an index of the host."""
    return fused(device, lambda there, here, _: there.scatter(0, torch.tensor([1]), 5.0))


def scatter_of_a_host_source(device):
    """scatter of a source of the host."""
    at = torch.tensor([1]).to(device)
    return fused(device, lambda there, here, _: there.scatter(0, at, torch.ones(1)))


def index_add_with_a_host_index(device):
    """index_add with an index of the host."""
    source = torch.ones(1).to(device)
    return fused(device, lambda there, here, _: there.index_add(0, torch.tensor([1]), source))


def a_view_of_a_transposed_tensor(device):
    """view of a transposed tensor, and a write to it."""
    a = torch.arange(6.0).reshape(2, 3).to(device)
    view = outcome(lambda: a.t().view(6))
    if isinstance(view, torch.Tensor):
        view[1] = 9
    return [view, a]


def a_tensor_loaded_to_the_device(device):
    """torch.load with map_location="xla"."""
    file = io.BytesIO()
    torch.save({"a": torch.ones(2)}, file)
    file.seek(0)
    return str(torch.load(file, map_location="xla")["a"].device)


def a_checkpoint_of_pytorch(device):
    """torch.utils.checkpoint on the device."""
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(2).to(device).requires_grad_()
    checkpoint(lambda y: y * y, x, use_reentrant=False).sum().backward()
    return x.grad


def modules_of_the_device(device):
    """torch.xla: what PyTorch finds as the device's module."""
    return [hasattr(torch, "xla"), outcome(torch.get_device_module, "xla") == "another error"]


def a_host_scalar_tensor(device):
    """A tensor of the host without dimensions goes into everything elementwise."""
    there, here = torch.full((2,), 2.0).to(device), torch.tensor(0.5)
    results = [there + here, here * there, there / here, there**here, torch.maximum(there, here)]
    return [[str(result.device), result] for result in results]


def a_host_tensor_with_a_gradient(device):
    """The gradient of a tensor of the host beside one of the device."""
    there = torch.ones(2).to(device)
    here = torch.full((2,), 3.0, requires_grad=True)
    outcome_text = outcome(lambda: (there * here).sum().backward())
    return [outcome_text, str(here.grad.device) if here.grad is not None else None, here.grad]


def a_broadcast_host_tensor(device):
    """A tensor of the host that is broadcast."""
    return torch.ones(2, 3).to(device) + torch.tensor([1.0, 2.0, 3.0])


def a_host_tensor_of_another_dtype(device):
    """Dtypes are promoted with a tensor of the host."""
    result = torch.ones(2, dtype=torch.int32).to(device) + torch.tensor([0.5, 1.5])
    return [str(result.dtype), result]


def a_host_mask_assigned(device):
    """Assignment by a mask of the host."""
    there = torch.zeros(3).to(device)
    done = outcome(there.__setitem__, torch.tensor([True, False, True]), 2.0)
    return [done, there]


def a_host_value_assigned(device):
    """Assignment of a value of the host."""
    there = torch.zeros(3).to(device)
    there[1:] = torch.tensor([4.0, 5.0])
    return there


def a_parameter_of_the_host_in_a_model_of_the_device(device):
    """A Parameter of the host that is added and multiplied in a model of the device."""
    scale = nn.Parameter(torch.full((2,), 3.0))
    result = nn.Linear(2, 2, bias=False).to(device)(torch.ones(1, 2).to(device)) * 0 + scale
    return [str(result.device), result]


def float64_on_the_device(device):
    """float64 stays float64."""
    t = torch.tensor([1.0 + 2**-40], dtype=torch.float64).to(device)
    return [str(t.dtype), (t - 1).cpu().item() == 2**-40]


def int64_on_the_device(device):
    """int64 stays int64."""
    return torch.tensor([2**40]).to(device) + 1


def promotion_of_numbers(device):
    """Dtypes of results with numbers."""
    i, h = (
        torch.ones(2, dtype=torch.int32).to(device),
        torch.ones(2, dtype=torch.bfloat16).to(device),
    )
    results = [i + 1, i + 1.5, i / 2, i // 2, h + 1.5, h * i, i > 0, i.sum(), i.float().mean()]
    return [[str(r.dtype), r] for r in results]


def complex_numbers(device):
    """Complex tensors."""
    t = torch.tensor([1 + 2j, 3 - 1j]).to(device)
    return [torch.view_as_real(t * t), t.abs()]


def empty_and_scalar_tensors(device):
    """Tensors without elements, and without dimensions."""
    empty, scalar = torch.empty(0, 3).to(device), torch.tensor(2.5).to(device)
    return [
        (empty + 1).shape[0],
        empty.sum(),
        scalar * scalar,
        torch.cat([empty, torch.ones(1, 3).to(device)]),
    ]


def a_reshaped_view_writes_its_base(device):
    """Views of views write their base."""
    a = torch.zeros(2, 3).to(device)
    a.t()[1].fill_(5)
    a.view(6)[5] = 7
    a.reshape(3, 2)[0, 0] = 9
    return a


def an_expanded_tensor(device):
    """expand makes no copy, and a write to it is refused or written."""
    a = torch.ones(1, 3).to(device)
    return [list(a.expand(2, 3).stride()), a.expand(2, 3).sum()]


def strides_of_a_transposed_tensor(device):
    """Strides and is_contiguous of a view."""
    a = torch.ones(2, 3).to(device).t()
    return [list(a.stride()), a.is_contiguous(), list(a.contiguous().stride())]


def a_detached_tensor_shares_memory(device):
    """detach shares memory."""
    a = torch.ones(2).to(device).requires_grad_()
    a.detach().mul_(3)
    return a


def gradients_of_a_function(device):
    """torch.autograd.grad, twice."""
    x = torch.tensor([2.0]).to(device).requires_grad_()
    (first,) = torch.autograd.grad(x**3, x, create_graph=True)
    (second,) = torch.autograd.grad(first, x)
    return [first, second]


def functional_gradients(device):
    """torch.func.grad and vmap."""
    x = torch.tensor([1.0, 2.0]).to(device)
    return [torch.func.grad(lambda t: (t**3).sum())(x), torch.func.vmap(lambda t: t * 2)(x)]


def nan_and_infinity(device):
    """NaN and infinity."""
    t = torch.tensor([0.0, 1.0, -1.0]).to(device)
    return [t / 0, t.log(), torch.isnan(t / 0), torch.nan_to_num(t / 0, nan=5.0)]


def integer_division_and_remainder(device):
    """Signs of division and remainder."""
    t = torch.tensor([7, -7, 5]).to(device)
    return [t // 2, t % 3, torch.fmod(t, 3), torch.div(t, 2, rounding_mode="trunc"), t >> 1]


def sums_of_low_precision(device):
    """A sum of bfloat16."""
    t = torch.full((512,), 1.0, dtype=torch.bfloat16).to(device)
    return [str(t.sum().dtype), t.sum(), t.mean(), t.sum(dtype=torch.float32)]


def sorting_and_searching(device):
    """argmax, argsort, cumsum, kthvalue, searchsorted, bincount."""
    t = torch.tensor([3.0, 1.0, 2.0, 1.0]).to(device)
    return [
        t.argmax(),
        t.argmin(),
        t.cumsum(0),
        t.kthvalue(3).values,
        t.sort(stable=True).indices,
        torch.searchsorted(torch.tensor([1.0, 2.0]).to(device), t),
        torch.bincount(t.long()),
    ]


def activations(device):
    """Activations."""
    t = torch.linspace(-2, 2, 5).to(device)
    f = nn.functional
    return [
        f.relu(t),
        f.gelu(t),
        f.gelu(t, approximate="tanh"),
        f.silu(t),
        f.softplus(t),
        f.elu(t),
        f.hardswish(t),
        f.softmax(t, 0),
        f.log_softmax(t, 0),
        torch.sigmoid(t),
        f.mish(t),
    ]


def linear_algebra(device):
    """Products, norms, determinants and decompositions."""
    a = torch.tensor([[4.0, 1.0], [1.0, 3.0]]).to(device)
    return [
        a @ a,
        torch.linalg.norm(a),
        torch.linalg.det(a),
        torch.linalg.cholesky(a),
        torch.einsum("ij,kj->ik", a, a),
        torch.trace(a),
        torch.triu(a),
    ]


def padding_and_folding(device):
    """pad, unfold, roll, flip, tile, interpolate."""
    a = torch.arange(6.0).reshape(1, 1, 2, 3).to(device)
    f = nn.functional
    return [
        f.pad(a, (1, 0), value=2.5),
        a.roll(1, -1),
        a.flip(2),
        a.tile(1, 2, 1, 1).sum((0, 2, 3)),
        f.interpolate(a, scale_factor=2, mode="nearest"),
        f.unfold(a, 2),
    ]


def scatter_and_gather(device):
    """scatter, gather, index_put, index_add, scatter_add."""
    a, at = torch.zeros(3).to(device), torch.tensor([0, 2, 0]).to(device)
    b = torch.tensor([1.0, 2.0, 4.0]).to(device)
    return [
        a.scatter_add(0, at, b),
        b.gather(0, at),
        a.index_add(0, at, b),
        a.index_put((at,), b, accumulate=True),
        b.index_select(0, at),
    ]
