"""Scopes of torch_xla's profiler in PyTorch's own."""

import pytest
import torch


def names(body):
    with torch.profiler.profile() as profile:
        body()
    return [event.name for event in profile.events()]


def test_scopes_are_those_of_pytorchs_profiler():
    import torch_xla.debug.profiler as xp

    @xp.trace_me("of a function")
    def body():
        with xp.Trace("inner", step=1):
            return torch.ones(1)

    found = names(body)
    assert "inner" in found
    assert "of a function" in found


def test_a_scope_of_a_step_ends_it_unless_it_fails():
    import torch_xla.debug.metrics as met
    import torch_xla.debug.profiler as xp

    with xp.StepTrace("train", step_num=1):
        assert met.counter_value("MarkStep") is None
    assert met.counter_value("MarkStep") == 1
    with pytest.raises(ValueError, match="x"), xp.StepTrace("train"):
        raise ValueError("x")
    assert met.counter_value("MarkStep") == 1


def test_the_server_is_refused_by_name():
    import torch_xla.debug.profiler as xp

    with pytest.raises(AttributeError, match=r"(?s)start_server: the server.*fix: torch.profiler"):
        xp.start_server(9012)
