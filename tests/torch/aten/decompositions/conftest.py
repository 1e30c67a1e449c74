"""Operators on the device, instruction by instruction, beside the host's whole operator."""

import pytest


@pytest.fixture
def agree(monkeypatch):
    """`agree(function, *arguments)`: `exact` gives what the CPU gives, by kernels of its own.

    `tolerance` is relative to the largest element: 2**-18 for functions of the Scalar Engine, one
    rounding where the result is bfloat16.
    """
    torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
    from trnsim.device.numerics import numerics  # noqa: PLC0415  likewise
    from trnsim.torch.dispatch import exact  # noqa: PLC0415  only where torch is

    def build(call):
        """The graph of a call, whose results cross to HBM as the operator's own types."""
        built = exact_build(call)
        found = [value.type for value in built.graph.outputs]
        wanted = [spec.type for spec in call.results if spec.type.elements]
        assert found == (wanted or found), call.name  # lists in place return nothing
        return built

    exact_build = exact.build
    monkeypatch.setattr(exact, "build", build)

    def check(function, *arguments, tolerance=2.0**-18, is_lowered=True):
        expected = function(*arguments)
        moved = [a.to("neuron") if isinstance(a, torch.Tensor) else a for a in arguments]
        moved = [[t.to("neuron") for t in a] if isinstance(a, list) else a for a in moved]
        with numerics("exact") as on_host:
            found = function(*moved)
        assert bool(on_host) is not is_lowered, dict(on_host)
        for mine, theirs in zip(flat(found), flat(expected), strict=True):
            assert mine.device.type == "neuron"
            assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
            ours, host = mine.cpu().double(), theirs.double()
            largest = host.abs().max().clamp(min=1e-30)
            assert ((ours - host).abs().max() / largest).item() <= tolerance

    def flat(value):
        if isinstance(value, torch.Tensor):
            return [value]
        return [tensor for part in value for tensor in flat(part)]

    return check


@pytest.fixture
def same():
    """`same(function, *tensors)`: `exact` gives the very numbers of the CPU, NaN where it does."""
    torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
    from trnsim.device.numerics import numerics  # noqa: PLC0415  only where torch is

    def check(function, *tensors):
        with numerics("exact") as on_host:
            found = function(*(tensor.to("neuron") for tensor in tensors))
        assert not on_host
        expected = function(*tensors)
        torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0, equal_nan=True)

    return check
