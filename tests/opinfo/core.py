"""How each of PyTorch's core operators gets its time: the kernels of a call that a sample makes."""

from contextlib import suppress

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from trnsim.errors import EmulatorError
from trnsim.lower import costs
from trnsim.torch.aten.operator_call import call_of, graph_of, tensors_in

aten = torch.ops.aten


def core_operators():
    """The full names of the operators that PyTorch tags as core."""
    found = []
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        packet, _, overload = name.removeprefix("aten::").partition(".")
        operator = getattr(getattr(aten, packet, None), overload or "default", None)
        if name.startswith("aten::") and operator is not None and torch.Tag.core in operator.tags:
            found.append(name)
    return found


class CoreCalls(TorchDispatchMode):
    """The time of the first calls of each core operator inside, by name."""

    def __init__(self, most=3):
        super().__init__()
        self.most = most
        self.tried = {}
        self.found = {}

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        del types
        result = operator(*args, **(kwargs or {}))
        if torch.Tag.core in operator.tags:
            self.note(operator, args, kwargs or {}, result)
        return result

    def note(self, operator, args, kwargs, result):
        """Keep the kernels of a call, the fewest above none; else why there are none."""
        name = operator.name()
        call = call_of(name, args, kwargs, result)
        # A tensor of the host without dimensions is a number to the device.
        is_odd = any(not tensor.dim() for tensor in tensors_in([*args]))
        is_empty = all(0 in spec.shape for spec in call.results)
        self.tried[name] = self.tried.get(name, 0) + (not is_odd)
        if is_odd or is_empty or self.tried[name] > self.most:
            return
        try:
            kernels = [cost.name for cost in costs(graph_of(call))]
        except EmulatorError as error:
            kernels = error.reason
        self.found[name] = better(self.found.get(name), kernels)


def better(one, other):
    """Of two times of an operator the one of fewer kernels; a reason only where there is none."""
    if not isinstance(one, list) or not isinstance(other, list):
        return other if isinstance(other, list) or one is None else one
    return min((one, other), key=lambda kernels: (not kernels, len(kernels)))


X, IMAGE, VOLUME = torch.randn(4, 6), torch.randn(1, 2, 6, 6), torch.randn(1, 2, 4, 4, 4)
SMALLER, WHERE = torch.randn(1, 2, 3, 3), torch.zeros(1, 2, 3, 3, dtype=torch.int64)
WHOLE, PAIR = torch.arange(24).reshape(4, 6), (torch.zeros(2), torch.ones(2))
ALL = [True, True, True]
# Calls of core operators that no sample makes, or that PyTorch takes apart before the device.
DIRECT = (
    (aten.native_dropout.default, (X, 0.5, True)),
    (aten.rand.default, ([4, 6],)),
    (aten.randn.default, ([4, 6],)),
    (aten.randperm.default, (8,)),
    (aten._adaptive_avg_pool2d.default, (IMAGE, [3, 3])),
    (aten._adaptive_avg_pool2d_backward.default, (SMALLER, IMAGE)),
    (aten._adaptive_avg_pool3d.default, (VOLUME, [2, 2, 2])),
    (aten.adaptive_avg_pool1d.default, (X, [3])),
    (aten.avg_pool1d.default, (X, [2])),
    (aten.avg_pool2d_backward.default, (SMALLER, IMAGE, [2], [2], [0], False, True, None)),
    (
        aten.max_pool2d_with_indices_backward.default,
        (SMALLER, IMAGE, [2, 2], [2, 2], [0, 0], [1, 1], False, WHERE),
    ),
    (aten.col2im.default, (torch.randn(1, 8, 9), [6, 6], [2, 2], [1, 1], [0, 0], [2, 2])),
    (
        aten.convolution_backward.default,
        (torch.randn(1, 3, 4, 4), IMAGE, torch.randn(3, 2, 3, 3), [3], [1, 1], [0, 0], [1, 1],
         False, [0, 0], 1, ALL),
    ),
    (aten.embedding_dense_backward.default, (X[:3], torch.tensor([1, 0, 1]), 4, -1, False)),
    (
        aten.native_layer_norm_backward.default,
        (X, X, [6], X[:, :1], X[:, :1], X[0], X[0], ALL),
    ),
    (
        aten.native_group_norm_backward.default,
        (IMAGE, IMAGE, torch.randn(1, 2), torch.rand(1, 2), PAIR[1], 1, 2, 36, 2, ALL),
    ),
    (aten._native_batch_norm_legit.default, (IMAGE, None, None, *PAIR, True, 0.1, 1e-5)),
    (aten._native_batch_norm_legit.no_stats, (IMAGE, None, None, True, 0.1, 1e-5)),
    (aten._native_batch_norm_legit_no_training.default, (IMAGE, None, None, *PAIR, 0.1, 1e-5)),
    (aten._embedding_bag.default, (X, torch.tensor([0, 1, 3]), torch.tensor([0, 2]))),
    (aten.upsample_nearest2d.vec, (IMAGE, None, [2.0, 2.0])),
    (aten.upsample_bilinear2d.vec, (IMAGE, None, False, [2.0, 2.0])),
    (aten.reflection_pad1d.default, (X, [1, 1])),
    (aten.reflection_pad2d.default, (IMAGE, [1] * 4)),
    (aten.reflection_pad3d.default, (VOLUME, [1] * 6)),
    (aten.replication_pad2d.default, (IMAGE, [1] * 4)),
    (aten.replication_pad3d.default, (VOLUME, [1] * 6)),
    (aten.amin.default, (X, [1])),
    (aten.amax.default, (X, [1])),
    (aten.any.dim, (X, 1)),
    (aten.any.dims, (X, [1])),
    (aten.argmax.default, (X, 1)),
    (aten.argmin.default, (X, 1)),
    (aten.var.dim, (X, [1])),
    (aten.bitwise_and.Scalar, (WHOLE, 6)),
    (aten.bitwise_or.Scalar, (WHOLE, 6)),
    (aten.bitwise_xor.Scalar, (WHOLE, 6)),
    (aten.copy.default, (X, X)),
    (aten.div.Scalar_mode, (X, 2.0), {"rounding_mode": "floor"}),
    (aten.fmod.Scalar, (X, 2.0)),
    (aten.pow.Scalar, (2.0, X)),
    (aten.ge.Scalar, (X, 1.0)),
    (aten.gt.Scalar, (X, 1.0)),
    (aten.scatter.value, (X, 1, WHOLE[:, :2] % 6, 1.0)),
    (aten.atan2.out, (X, X), {"out": torch.empty_like(X)}),
)  # fmt: skip


def direct_times():
    """How core operators get their time, of the calls above."""
    calls = CoreCalls()
    for operator, args, *named in DIRECT:
        kwargs = named[0] if named else {}
        calls.note(operator, args, kwargs, operator(*args, **kwargs))
    return calls.found


def sampled_times(entry, samples):
    """The same, of samples of an entry on the CPU; those that the CPU refuses are left out."""
    calls = CoreCalls()
    for sample in samples:
        with suppress(Exception), calls:
            entry.op(sample.input, *sample.args, **sample.kwargs)
    return calls.found


# What runs nothing on the device, so that there is nothing to time.
NO_WORK = {
    "a view: what reads it pays": ("alias", "squeeze", "unsqueeze", "view"),
    "read by the host": ("sym_is_contiguous", "sym_numel", "sym_size", "sym_storage_offset",
                         "sym_stride", "_local_scalar_dense"),
    "memory alone": ("empty", "empty_strided", "resize_"),
}  # fmt: skip
# What the host computes, and why.
ON_HOST = {
    "_fft_c2r": "a NeuronCore has no complex numbers",
    "_fft_r2c": "a NeuronCore has no complex numbers",
    "nonzero": "the shape of its result depends on values",
}


def how(name, found):
    """(lowered, composed, nothing or host; its kernels or why there are none) of an operator."""
    packet = name.removeprefix("aten::").partition(".")[0]
    for why, packets in NO_WORK.items():
        if packet in packets:
            return "nothing", why
    kernels = found.get(name)
    if isinstance(kernels, list) and kernels:
        return ("lowered" if len(kernels) == 1 else "composed"), ", ".join(kernels)
    return "host", ON_HOST.get(packet, kernels or "no call of it was seen")
