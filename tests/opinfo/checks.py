"""What is checked of an entry of PyTorch's table of operators: one function for each kind."""

import warnings
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, islice
from unittest import SkipTest

import torch
from samples import Copies, Tensor, difference, tensors, views

from trnsim.device.fallback_policy import set_policy
from trnsim.device.numerics import numerics
from trnsim.torch.device_errors import DtypeRefused, OperatorNotModelled
from trnsim.torch.dispatch.fallback_policy import UNSUPPORTED_DTYPES

FLOATS = (torch.float32, torch.bfloat16)
OTHERS = (torch.int64, torch.bool, torch.complex64, torch.float64, torch.float16)
SMALL = 4096  # elements that instructions compute quickly
LAYOUTS = {
    "supports_sparse": torch.sparse_coo,
    "supports_sparse_csr": torch.sparse_csr,
    "supports_sparse_csc": torch.sparse_csc,
    "supports_sparse_bsr": torch.sparse_bsr,
    "supports_sparse_bsc": torch.sparse_bsc,
}


@dataclass
class Outcome:
    """What became of an entry: samples compared, samples that the CPU itself refuses, a failure."""

    compared: int = 0
    skipped: int = 0
    failure: str = ""

    def fail(self, where, said):
        """Keep the first failure."""
        self.failure = self.failure or f"{where}: {said}"


def dtypes_of(entry):
    """float32 and bfloat16 where the operator has them, else the first other one that it has."""
    supported = entry.supported_dtypes("cpu")
    found = [dtype for dtype in FLOATS if dtype in supported]
    others = (*OTHERS, *sorted(supported, key=str))
    return found or [dtype for dtype in others if dtype in supported][:1]


def undefined(entry):
    """Whether the values of the results are whatever lay in memory."""
    return entry.name.startswith(("empty", "new_empty")) or "empty_" in entry.name


def words(error):
    """An error in one line."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"[:200]


def call(function, sample, device, **extra):
    """The result on a device and the arguments that it was given, random numbers from seed 0."""
    copies = Copies(device)
    args = [sample.input, *sample.args]
    # Where to cut is read by the host: PyTorch takes it on the CPU alone.
    split = function is torch.tensor_split and isinstance(args[1], Tensor)
    given = [copies.of(args[:1] if split else args), copies.of(dict(sample.kwargs))]
    arguments = given[0] + args[1:] if split else given[0]
    # What is given no tensor is told by the context where to make one.
    where = nullcontext() if tensors((arguments, extra)) else torch.device(device)
    torch.manual_seed(0)
    with where:
        return function(*arguments, **given[1], **extra), given


def attempt(function, sample, device, **extra):
    """As `call`; the error instead, if the device or PyTorch raised one."""
    try:
        return *call(function, sample, device, **extra), None
    except Exception as error:  # noqa: BLE001  whatever an operator raises
        return None, None, error


def forward(entry):
    """Results, views, changed arguments, `out=` and the in-place form, of all samples."""
    outcome = Outcome()
    for dtype in dtypes_of(entry):
        for number, sample in enumerate(entry.sample_inputs("cpu", dtype)):
            where = f"{str(dtype).removeprefix('torch.')} sample {number}"
            expected, theirs, refusal = attempt(entry.op, sample, "cpu")
            if refusal is not None:
                outcome.skipped += 1
                continue
            found, mine, error = attempt(entry.op, sample, "neuron")
            if error is not None:
                outcome.fail(where, words(error))
                continue
            if undefined(entry) or not (tensors(expected) or expected is not None):
                continue
            said = difference(found, expected) or difference(mine, theirs)
            if not said and views(found, mine) != views(expected, theirs):
                said = f"views {views(found, mine)} instead of {views(expected, theirs)}"
            said = said or _out(entry, sample, expected) or _in_place(entry, sample)
            if said:
                outcome.fail(where, said)
            outcome.compared += 1
    return outcome


def _out(entry, sample, expected):
    """How `out=` differs, with tensors of the right shape and with empty ones."""
    if not entry.supports_out or not tensors(expected) or "out" in sample.kwargs:
        return ""
    for shape in ("the right shape", "no elements"):

        def outs(device, shape=shape):
            made = [
                torch.zeros_like(t, device=device)
                if shape == "the right shape"
                else torch.empty(0, dtype=t.dtype, device=device)
                for t in tensors(expected)
            ]
            return made[0] if isinstance(expected, Tensor) else tuple(made)

        theirs, mine = outs("cpu"), outs("neuron")
        wanted, _, refusal = attempt(entry.op, sample, "cpu", out=theirs)
        if refusal is not None:
            continue
        found, _, error = attempt(entry.op, sample, "neuron", out=mine)
        if error is not None:
            return f"out= of {shape}: {words(error)}"
        given = zip(tensors(found), tensors(mine), strict=False)
        said = difference(mine, theirs) or difference(found, wanted)
        if said or any(one is not other for one, other in given):
            return f"out= of {shape}: {said or 'another tensor is returned'}"
    return ""


def _in_place(entry, sample):
    """How the in-place form differs."""
    if entry.inplace_variant is None or sample.broadcasts_input:
        return ""
    expected, theirs, refusal = attempt(entry.inplace_variant, sample, "cpu")
    if refusal is not None:
        return ""
    found, mine, error = attempt(entry.inplace_variant, sample, "neuron")
    said = words(error) if error else difference(found, expected) or difference(mine, theirs)
    return said and f"in place: {said}"


def gradient(entry):
    """Gradients of all differentiable arguments, of all samples."""
    outcome = Outcome()
    for dtype in FLOATS:
        if dtype in entry.supported_backward_dtypes("cpu"):
            samples = entry.sample_inputs("cpu", dtype, requires_grad=True)
            for number, sample in enumerate(samples):
                where = f"{str(dtype).removeprefix('torch.')} sample {number}"
                _compare_gradients(entry, sample, where, outcome)
    return outcome


def _compare_gradients(entry, sample, where, outcome):
    try:
        expected = _gradients(entry.op, sample, "cpu")
    except Exception:  # noqa: BLE001  whatever an operator raises
        outcome.skipped += 1
        return
    if not any(part is not None for part in expected):
        return
    try:
        said = difference(_gradients(entry.op, sample, "neuron"), expected)
    except Exception as error:  # noqa: BLE001  likewise
        said = words(error)
    if said:
        outcome.fail(where, said)
    outcome.compared += 1


def _gradients(function, sample, device):
    """The gradients of random combinations of the results."""
    result, given = call(function, sample, device)
    if sample.output_process_fn_grad is not None:
        result = sample.output_process_fn_grad(result)
    outputs = [t for t in tensors(result) if t.requires_grad]
    inputs = [t for t in tensors(given) if t.requires_grad]
    if not outputs or not inputs:
        return []
    torch.manual_seed(1)
    weights = [torch.randn(t.shape, dtype=t.dtype).to(device) for t in outputs]
    return list(torch.autograd.grad(outputs, inputs, weights, allow_unused=True))


def compiled(entry, most=2):
    """The first samples through `torch.compile`, beside what its traces give on the CPU."""
    outcome = Outcome()
    dtypes = [] if undefined(entry) else dtypes_of(entry)[:1]
    for dtype in dtypes:
        is_traced_back = applies("gradient", entry) and dtype is torch.float32
        samples = entry.sample_inputs("cpu", dtype, requires_grad=is_traced_back)
        for number, sample in enumerate(islice(samples, most)):
            expected, theirs, refusal = _compiled(entry, sample, "aot_eager", "cpu")
            if refusal is not None:
                outcome.skipped += 1
                continue
            found, mine, error = _compiled(entry, sample, "neuron", "neuron")
            said = words(error) if error else difference(found, expected)
            said = said or difference(mine, theirs)
            if said:
                outcome.fail(f"sample {number}", said)
            outcome.compared += 1
    return outcome


def _compiled(entry, sample, backend, device):
    """Results with gradients, and arguments, of one sample; or the error that was raised."""
    from torch import _dynamo  # noqa: PLC0415  takes a second

    _dynamo.reset()

    def operator(*args, **kwargs):  # an operator by itself is not traced
        return entry.op(*args, **kwargs)

    function = torch.compile(operator, backend=backend)
    result, given, error = attempt(function, sample, device)
    if error is not None or not any(t.requires_grad for t in tensors(result)):
        return result, given, error
    try:
        return [result, _gradients(function, sample, device)], given, None
    except Exception as error:  # noqa: BLE001  whatever an operator raises
        return None, None, error


def chip(entry):
    """Whether every call with a complex, float64 or sparse tensor, given or made, is refused."""
    outcome = Outcome()
    supported = entry.supported_dtypes("cpu")
    set_policy("chip")
    try:
        for dtype in sorted(supported & UNSUPPORTED_DTYPES, key=str):
            _refused(entry, entry.sample_inputs("cpu", dtype), outcome, str(dtype), most=2)
        for dtype in dtypes_of(entry):
            if dtype not in UNSUPPORTED_DTYPES:
                _refused(entry, entry.sample_inputs("cpu", dtype), outcome, str(dtype), most=None)
        for support, layout in LAYOUTS.items():
            if getattr(entry, support, False) and torch.float32 in supported:
                with suppress(NotImplementedError, SkipTest):  # it has no samples of them
                    samples = entry.sample_inputs_sparse(layout, "cpu", torch.float32)
                    _refused(entry, samples, outcome, str(layout), most=2)
    finally:
        set_policy("host")
    return outcome


def is_lacking(value):
    """Whether a tensor in a structure is one that a NeuronCore cannot hold."""
    return any(
        t.dtype in UNSUPPORTED_DTYPES or t.layout is not torch.strided for t in tensors(value)
    )


def _refused(entry, samples, outcome, where, most):
    """Count the samples with such tensors, given or returned, and keep one that was not refused."""
    tried = 0
    for sample in samples:
        if tried == most:
            return
        given = (sample.input, sample.args, sample.kwargs)
        expected, _, refusal = attempt(entry.op, sample, "cpu")
        if refusal is not None or not (is_lacking(given) or is_lacking(expected)):
            outcome.skipped += refusal is not None
            continue
        tried += 1
        outcome.compared += 1
        _, _, error = attempt(entry.op, sample, "neuron")
        is_named = isinstance(error, RuntimeError) and "Sparse" in str(error)  # PyTorch's own
        if not (is_named or isinstance(error, DtypeRefused | OperatorNotModelled)):
            outcome.fail(where, words(error) if error else "not refused")


def is_small(all_of_them):
    """Whether tensors have few elements, and each has some."""
    return all(0 < tensor.numel() <= SMALL for tensor in all_of_them)


def exact(entry, most=6):
    """Small samples, instruction by instruction, beside the host's whole operator."""
    outcome = Outcome()
    dtypes = [] if undefined(entry) else dtypes_of(entry)[:1]
    samples = chain.from_iterable(entry.sample_inputs("cpu", dtype) for dtype in dtypes)
    for number, sample in enumerate(islice(samples, most)):
        expected, theirs, refusal = attempt(entry.op, sample, "cpu")
        if refusal is not None or not is_small(tensors((expected, theirs))):
            outcome.skipped += 1
            continue
        with numerics("exact") as on_host:
            found, _, error = attempt(entry.op, sample, "neuron")
        said = words(error) if error else "; ".join(on_host) or _apart(found, expected)
        if said:
            outcome.fail(f"sample {number}", said)
        outcome.compared += 1
    return outcome


def exact_gradient(entry, most=2):
    """Gradients of small samples, instruction by instruction, beside the host's."""
    outcome = Outcome()
    samples = entry.sample_inputs("cpu", torch.float32, requires_grad=True)
    for number, sample in enumerate(islice(samples, most)):
        try:
            expected = _gradients(entry.op, sample, "cpu")
        except Exception:  # noqa: BLE001  whatever an operator raises
            outcome.skipped += 1
            continue
        if not tensors(expected) or not is_small(tensors((expected, sample.input, sample.args))):
            continue
        try:
            with numerics("exact") as on_host:
                found = _gradients(entry.op, sample, "neuron")
            said = "; ".join(on_host) or _apart(found, expected)
        except Exception as error:  # noqa: BLE001  likewise
            said = words(error)
        if said:
            outcome.fail(f"sample {number}", said)
        outcome.compared += 1
    return outcome


def _apart(found, expected, bound=2.0**-12):
    """Whether two results are further apart than a bound, relative to the largest element."""
    for mine, theirs in zip(tensors(found), tensors(expected), strict=True):
        ours, host = mine.detach().cpu().double(), theirs.detach().double()
        if not torch.equal(ours.isfinite(), host.isfinite()):
            return "values: other places are not finite"
        ours, host = ours[ours.isfinite()], host[host.isfinite()]
        if host.numel() and (ours - host).abs().max() > bound * host.abs().max().clamp(min=1):
            return f"values: {(ours - host).abs().max().item():.3g} apart"
    return ""


CHECKS = {
    "forward": forward,
    "gradient": gradient,
    "compiled": compiled,
    "chip": chip,
    "exact": exact,
    "exact_gradient": exact_gradient,
}


def applies(kind, entry):
    """Whether a kind of check is about this entry at all."""
    if kind.endswith("gradient"):
        return entry.supports_autograd and torch.float32 in entry.supported_backward_dtypes("cpu")
    return True


def check(kind, entry):
    """The outcome of one kind of check of one entry."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CHECKS[kind](entry)
