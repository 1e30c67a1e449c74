"""Counters: what is counted, and nothing else."""

import pytest


def test_steps_are_counted_until_they_are_cleared():
    import torch_xla
    import torch_xla.debug.metrics as met

    assert met.counter_names() == []
    assert met.counter_value("MarkStep") is None
    torch_xla.sync()
    torch_xla.sync(wait=True)
    assert met.counter_names() == ["MarkStep"]
    assert met.counter_value("MarkStep") == 2
    assert met.counter_value("UncachedCompile") is None
    met.clear_all()
    assert met.counter_names() == []


def test_reports_of_compilations_are_refused_by_name():
    import torch_xla.debug.metrics as met

    assert not hasattr(met, "metrics_report")
    with pytest.raises(
        AttributeError, match="metrics_report: cuts and compilations are not counted"
    ):
        met.metrics_report()
