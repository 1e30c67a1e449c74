"""Autocast of the device: dtypes by operator, and gradients.

Each function is a program, as in cut_programs.py.
"""

import torch
import torch_xla
from torch import nn


def pair(place):
    """Two matrices."""
    return torch.ones(2, 2).to(place), torch.full((2, 2), 0.5).to(place)


def dtypes_of_operators(device):
    """The dtype of each operator's result in autocast."""
    a, b = pair(device)
    image = torch.ones(1, 1, 4, 4).to(device)
    f = nn.functional
    operators = {
        "mm": lambda: a @ b,
        "bmm": lambda: torch.bmm(a[None], b[None]),
        "add": lambda: a + b,
        "linear": lambda: f.linear(a, b),
        "conv2d": lambda: f.conv2d(image, image[..., :3, :3]),
        "softmax": lambda: torch.softmax(a, 0),
        "log_softmax": lambda: torch.log_softmax(a, 0),
        "sum": lambda: a.sum(),
        "exp": lambda: a.exp(),
        "log": lambda: a.log(),
        "pow": lambda: a**2,
        "layer_norm": lambda: f.layer_norm(a, (2,)),
        "norm": lambda: a.norm(),
        "mse_loss": lambda: f.mse_loss(a, b),
        "gelu": lambda: f.gelu(a),
        "relu": lambda: f.relu(a),
        "cat": lambda: torch.cat([a, b.bfloat16()]),
        "addmm": lambda: torch.addmm(a, a, b),
        "matmul": lambda: torch.matmul(a, b),
        "einsum": lambda: torch.einsum("ij,jk->ik", a, b),
        "baddbmm": lambda: torch.baddbmm(a[None], a[None], b[None]),
        "cumsum": lambda: a.cumsum(0),
        "prod": lambda: a.prod(),
        "mean": lambda: a.mean(),
        "sdpa": lambda: f.scaled_dot_product_attention(a[None], a[None], b[None]),
        "bmm_of_bf16": lambda: (a.bfloat16() @ b.bfloat16()).exp(),
        "softmax_of_bf16": lambda: torch.softmax(a.bfloat16(), 0),
        "cross_entropy": lambda: f.cross_entropy(a, torch.tensor([0, 1]).to(a.device)),
        "group_norm": lambda: f.group_norm(image, 1),
        "stack": lambda: torch.stack([a, b.bfloat16()]),
        "embedding": lambda: f.embedding(torch.tensor([0]).to(a.device), a),
        "max_pool": lambda: f.max_pool2d(image, 2),
        "tanh": lambda: a.tanh(),
        "batch_norm": lambda: f.batch_norm(
            image, torch.zeros(1).to(a.device), torch.ones(1).to(a.device)
        ),
    }
    with torch.autocast("xla", dtype=torch.bfloat16):
        return {name: str(make().dtype) for name, make in operators.items()}


def dtypes_of_operators_of_low_precision(device):
    """The dtype of each operator's result in autocast, of operands in bfloat16."""
    a = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.bfloat16).to(device)
    b = torch.full((2, 2), 0.5, dtype=torch.bfloat16).to(device)
    image = torch.ones(1, 1, 4, 4, dtype=torch.bfloat16).to(device)
    labels = torch.tensor([0, 1]).to(device)
    f = nn.functional
    operators = {
        "exp": lambda: a.exp(),
        "log": lambda: a.log(),
        "pow": lambda: a**2,
        "sum": lambda: a.sum(),
        "prod": lambda: a.prod(),
        "cumsum": lambda: a.cumsum(0),
        "norm": lambda: a.norm(),
        "trace": lambda: a.trace(),
        "layer_norm": lambda: f.layer_norm(a, (2,)),
        "group_norm": lambda: f.group_norm(image, 1),
        "softmax": lambda: torch.softmax(a, 0),
        "log_softmax": lambda: torch.log_softmax(a, 0),
        "mse_loss": lambda: f.mse_loss(a, b),
        "l1_loss": lambda: f.l1_loss(a, b),
        "smooth_l1_loss": lambda: f.smooth_l1_loss(a, b),
        "kl_div": lambda: f.kl_div(a, b, reduction="sum"),
        "nll_loss": lambda: f.nll_loss(a, labels),
        "cross_entropy": lambda: f.cross_entropy(a, labels),
        "bce": lambda: f.binary_cross_entropy(b, b),
        "bce_with_logits": lambda: f.binary_cross_entropy_with_logits(a, b),
        "cdist": lambda: torch.cdist(a, b),
        "reflection_pad": lambda: f.pad(image, (1, 1, 1, 1), mode="reflect"),
        "replication_pad": lambda: f.pad(image, (1, 1, 1, 1), mode="replicate"),
        "index_copy": lambda: a.index_copy(0, labels, b),
        "cat": lambda: torch.cat([a, b]),
        "gelu": lambda: f.gelu(a),
        "silu": lambda: f.silu(a),
        "softplus": lambda: f.softplus(a),
        "sigmoid": lambda: a.sigmoid(),
        "rsqrt": lambda: a.rsqrt(),
        "reciprocal": lambda: a.reciprocal(),
        "logsumexp": lambda: a.logsumexp(0),
        "mv": lambda: a.float() @ b[0].float(),
        "prelu": lambda: f.prelu(a.float(), b[0, :1].float()),
        "addcmul": lambda: torch.addcmul(a, a.float(), b),
        "interpolate": lambda: f.interpolate(image, scale_factor=2),
    }
    with torch.autocast("xla", dtype=torch.bfloat16):
        return {name: str(make().dtype) for name, make in operators.items()}


def the_default_dtype(device):
    """autocast("xla") is bfloat16."""
    a, b = pair(device)
    with torch.autocast("xla"):
        return [
            str((a @ b).dtype),
            torch.is_autocast_enabled("xla"),
            str(torch.get_autocast_dtype("xla")),
        ]


def float16_by_name(device):
    """autocast("xla", dtype=float16)."""
    a, b = pair(device)
    with torch.autocast("xla", dtype=torch.float16):
        return str((a @ b).dtype)


def float32_by_name(device):
    """autocast("xla", dtype=float32)."""
    a, b = pair(device)
    with torch.autocast("xla", dtype=torch.float32):
        return str((a @ b).dtype)


def autocast_of_the_package(device):
    """torch_xla.amp.autocast."""
    from torch_xla.amp import autocast

    a, b = pair(device)
    with autocast(device):
        return str((a @ b).dtype)


def autocast_that_is_off(device):
    """enabled=False, and nested."""
    a, b = pair(device)
    results = []
    with torch.autocast("xla", enabled=False):
        results.append(str((a @ b).dtype))
    with torch.autocast("xla"), torch.autocast("xla", enabled=False):
        results.append(str((a @ b).dtype))
    return results


def a_training_step_in_autocast(device):
    """Loss and gradients of a step in autocast."""
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.linspace(-1, 1, 8).reshape(2, 4))
        layer.bias.zero_()
    layer.to(device)
    with torch.autocast("xla", dtype=torch.bfloat16):
        result = layer(torch.linspace(-1, 1, 8).reshape(2, 4).to(device))
        loss = result.square().mean()
    loss.backward()
    torch_xla.sync()
    return [loss, str(loss.dtype), layer.weight.grad, str(layer.weight.grad.dtype)]


def autocast_as_a_decorator(device):
    """autocast as a decorator."""
    a, b = pair(device)

    @torch.autocast("xla", dtype=torch.bfloat16)
    def product():
        return a @ b

    return [str(product().dtype), torch.is_autocast_enabled("xla")]


def autocast_of_the_hosts_tensors(device):
    """autocast("xla") leaves the host's tensors."""
    with torch.autocast("xla", dtype=torch.bfloat16):
        return str((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)


def custom_functions_in_autocast(device):
    """torch.amp.custom_fwd of the device."""

    class Double(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="xla", cast_inputs=torch.float32)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="xla")
        def backward(ctx, gradient):
            return gradient * 2

    a, _ = pair(device)
    with torch.autocast("xla", dtype=torch.bfloat16):
        return str(Double.apply(a.bfloat16()).dtype)
