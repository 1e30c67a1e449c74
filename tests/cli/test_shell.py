import pytest

from trnsim.cli import app
from trnsim.cli import shell as command
from trnsim.errors import BadInput
from trnsim.instance.model import instance_model
from trnsim.instance.shell.session import Session


@pytest.fixture
def became(monkeypatch):
    """What the command hands on, without entering anything."""
    found = {"missing": {}}

    def enter(instance, lnc):
        return Session(instance_model(instance, lnc), found["missing"])

    def become(session, given, environment, _):
        found.update(model=session.model, command=list(given), environment=environment)
        return 5

    monkeypatch.setattr(command.session, "enter", enter)
    monkeypatch.setattr(command.session, "become", become)
    return found


def ran(*arguments):
    with pytest.raises(SystemExit) as ended:
        app(args=["shell", *arguments], standalone_mode=False)
    return ended.value.code


@pytest.mark.parametrize("between", [(), ("--",)])
def test_what_follows_the_options_is_the_programs(became, between, capsys):
    program = ("python", "x.py", "--lnc", "7", "-h")
    assert ran("--instance", "trn2.48xlarge", "--lnc", "1", *between, *program) == 5
    assert became["command"] == list(program)
    assert became["model"].name == "trn2.48xlarge"
    assert became["environment"]["TRNSIM_INSTANCE"] == "trn2.48xlarge"
    assert became["environment"]["NEURON_LOGICAL_NC_CONFIG"] == "1"
    assert became["environment"]["PATH"].startswith("/opt/aws/neuron/bin:")
    assert capsys.readouterr() == ("", "")


def test_without_options_it_is_the_instance_of_the_variable_or_the_smallest(became, monkeypatch):
    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG", raising=False)
    monkeypatch.delenv("TRNSIM_INSTANCE", raising=False)
    assert ran() == 5
    assert became["model"].name == "trn2.3xlarge"
    assert became["command"] == []
    assert "NEURON_LOGICAL_NC_CONFIG" not in became["environment"]
    monkeypatch.setenv("TRNSIM_INSTANCE", "inf2.24xlarge")
    assert ran() == 5
    assert became["model"].name == "inf2.24xlarge"


def test_a_line_says_which_contact_points_are_missing(became, capsys):
    became["missing"] = {"/proc/devices": "darwin has none"}
    assert ran("--on", "TRN1.2xlarge", "true") == 5
    assert capsys.readouterr().err == "trnsim: missing here (darwin has none): /proc/devices\n"


@pytest.mark.usefixtures("became")
def test_a_shell_is_greeted_and_a_program_is_not(capsys, monkeypatch):
    monkeypatch.setattr(command.os, "isatty", lambda number: number == 2)
    assert ran("--instance", "trn2.48xlarge", "--lnc", "2") == 5
    greeting = "trnsim: trn2.48xlarge, emulated: 16 devices, 64 logical cores\n"
    assert capsys.readouterr().err == greeting
    assert ran("--instance", "trn2.48xlarge", "true") == 5
    assert greeting not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--instance", "trn2.48xlrge"), "'trn2.48xlrge' is no chip, family or instance type"),
        (("--instance", "g5.xlarge"), "has a10g, no Neuron devices"),
        (("--instance", "trn1.32xlarge", "--lnc", "2"), "lnc is 2 on trn1; legal: 1"),
    ],
)
@pytest.mark.usefixtures("became")
def test_what_cannot_be_is_refused(arguments, reason):
    with pytest.raises(BadInput, match=reason):
        app(args=["shell", *arguments], standalone_mode=False)
