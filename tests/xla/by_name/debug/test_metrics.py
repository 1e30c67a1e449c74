"""Counters and metrics by torch_xla's names."""

import pytest


def test_counters_and_metrics_count_until_they_are_cleared():
    import torch
    import torch_xla
    import torch_xla.debug.metrics as met

    assert met.counter_names() == []
    assert met.counter_value("MarkStep") is None
    total = torch.tensor([2.5, 3.5], device=torch_xla.device()).sum()
    assert total.item() == 6.0
    torch_xla.sync(wait=True)
    assert met.counter_value("MarkStep") == 1
    assert met.counter_value("UncachedCompile") == 2
    assert met.executed_fallback_ops() == ["aten::_local_scalar_dense"]
    samples, total_ns, latest_samples = met.metric_data("ExecuteTime")
    assert samples == len(latest_samples) == 2
    assert 1e3 < total_ns < 1e6  # of the chip, not of this computer
    assert met.metric_data("CompileTime")[0] == 2
    assert met.metric_data("TransferFromDeviceTime")[0] == 1
    assert met.metric_data("absent") is None
    assert "Metric: CompileTime\n  TotalSamples: 2\n" in met.metrics_report()
    short = met.short_metrics_report()
    assert "Counter: aten::_local_scalar_dense\n  Value: 1\n" in short
    assert "TensorsGraphSize" not in short
    assert met.short_metrics_report(["MarkStep"], []) == "Counter: MarkStep\n  Value: 1\n"
    met.clear_counters()
    assert met.counter_names() == []
    assert met.metric_names() != []
    met.clear_all()
    assert met.metric_names() == []
    assert met.short_metrics_report() == ""
    for names in ("MarkStep", 5):
        with pytest.raises(TypeError, match=r"metric_names=.*; legal: a list of names"):
            met.short_metrics_report([], names)
