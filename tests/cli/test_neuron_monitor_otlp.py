import pytest
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli import neuron_monitor_otlp as command
from trnsim.errors import BadInput


def run(*arguments):
    return CliRunner().invoke(app, ["neuron-monitor-otlp", *arguments], catch_exceptions=False)


@pytest.mark.parametrize("period", ["0", "-1", "3601", "2h"])
def test_a_period_is_above_zero_and_at_most_an_hour(period):
    with pytest.raises(BadInput, match=r"--period is .*; legal: above 0, up to 3600 seconds"):
        run("--period", period)


def test_an_empty_pipe_is_refused(monkeypatch):
    monkeypatch.setattr(command, "source", lambda: iter(()))
    with pytest.raises(BadInput, match="no report was read"):
        run()
