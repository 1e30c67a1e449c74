"""The environment variables of AWS's entry points."""

import pytest

from trnsim.arch import environment
from trnsim.errors import BadInput


@pytest.fixture(autouse=True)
def _unset(monkeypatch):
    for name in vars(environment):
        if name.endswith("_VARIABLE"):
            monkeypatch.delenv(getattr(environment, name), raising=False)


def test_a_plain_call_is_for_trn2_unless_a_variable_names_another(monkeypatch):
    assert environment.default_target() == "trn2"
    monkeypatch.setenv("NKI_NC_VERSION", "gen2")
    assert environment.default_target() == "trn1"
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn3")
    assert environment.default_target() == "trn3"


def test_awss_simulator_is_for_trn3_unless_a_variable_names_another(monkeypatch):
    assert environment.simulated_target() == "trn3"
    monkeypatch.setenv("NKI_SIMULATOR", "1")
    assert environment.default_target() == "trn3"
    monkeypatch.setenv("NKI_NC_VERSION", "gen2")
    assert environment.simulated_target() == environment.default_target() == "trn1"
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    assert environment.simulated_target() == "trn2"
    assert environment.simulated_target("NKI_NC_VERSION") == "trn1"


def test_a_choice_comes_with_its_reason(monkeypatch):
    why = "the default; NEURON_PLATFORM_TARGET_OVERRIDE names another"
    monkeypatch.setenv("NKI_SIMULATOR", "1")  # which asks for a simulator, not for a chip
    assert environment.chosen_target() == ("trn2", why)
    monkeypatch.setenv("NKI_NC_VERSION", "gen4")
    assert environment.chosen_target() == ("trn3", "NKI_NC_VERSION")
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "inf2")
    assert environment.chosen_target() == ("inf2", "NEURON_PLATFORM_TARGET_OVERRIDE")


@pytest.mark.parametrize(
    ("value", "name"),
    [("trn1", "trn1"), ("inf2", "inf2"), ("gen2", "trn1"), ("gen3", "trn2"), ("gen4", "trn3")],
)
@pytest.mark.parametrize("variable", ["NKI_NC_VERSION", "NEURON_PLATFORM_TARGET_OVERRIDE"])
def test_a_generation_has_several_names(monkeypatch, variable, value, name):
    monkeypatch.setenv(variable, value)
    assert environment.default_target() == name


def test_a_target_that_is_none_names_its_variable(monkeypatch):
    monkeypatch.setenv("NKI_NC_VERSION", "gen9")
    with pytest.raises(BadInput, match=r"\$NKI_NC_VERSION: target 'gen9' is not known") as caught:
        environment.default_target()
    assert "NKI_NC_VERSION=trn2" in caught.value.fix


@pytest.mark.parametrize(
    ("value", "is_on"), [("1", True), ("true", True), ("0", False), ("False", False), ("", False)]
)
def test_switches_take_words_and_numbers(monkeypatch, value, is_on):
    for variable in ("NKI_SIMULATOR", "NKI_PRECISE_FP", "NKI_DMA_TRANSPOSE_AS_PE_TRANSPOSE"):
        monkeypatch.setenv(variable, value)
    assert environment.asks_for_simulator() is is_on
    assert environment.is_precise() is is_on
    assert environment.transposes_on_tensor_engine() is is_on


def test_unset_switches_have_awss_defaults():
    assert not environment.asks_for_simulator()
    assert environment.is_precise()
    assert not environment.transposes_on_tensor_engine()


def test_the_grid_must_be_the_configured_one(monkeypatch):
    environment.check_logical_cores("kernel", 1)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    environment.check_logical_cores("kernel", 2)
    with pytest.raises(BadInput, match=r"kernel is launched on 1 core, but .* is 2") as caught:
        environment.check_logical_cores("kernel", 1)
    assert "kernel[2](...)" in caught.value.fix


LEGAL = r"inf2.xlarge, .*trn1.32xlarge, .*trn2.48xlarge, .*Trn3 Gen2 UltraServer\n"


@pytest.mark.parametrize(
    ("instance", "has"),
    [
        ("inf1.xlarge", "Inferentia1, a chip that is catalogued and not emulated"),
        ("p5.48xlarge", "H100, no Neuron devices"),
    ],
)
def test_an_instance_that_is_not_emulated_is_named_with_those_that_are(monkeypatch, instance, has):
    monkeypatch.setenv("TRNSIM_INSTANCE", instance)
    for ask in (environment.chosen_target, environment.default_target):
        with pytest.raises(BadInput, match=f"TRNSIM_INSTANCE={instance} has {has}; legal: {LEGAL}"):
            ask()
    monkeypatch.setenv("TRNSIM_INSTANCE", "inf2.48xlarge")
    assert environment.instance_target() == "inf2"
    monkeypatch.delenv("TRNSIM_INSTANCE")
    assert environment.instance_target() is None
