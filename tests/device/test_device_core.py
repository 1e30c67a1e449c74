import pytest

from trnsim import arch
from trnsim.arch.peaks import peak_flop_per_s
from trnsim.compiler import Flags
from trnsim.device import device_core as module
from trnsim.errors import BadInput


@pytest.fixture(autouse=True)
def fresh_answers():
    answers = (module.visible_cores, module.target, module.logical_config)
    for answer in answers:
        answer.cache_clear()
    yield
    for answer in answers:
        answer.cache_clear()


@pytest.mark.parametrize(
    ("named", "expected"),
    [("0", (0,)), ("0-3", (0, 1, 2, 3)), ("0,1", (0, 1)), ("4, 5-6", (4, 5, 6))],
)
def test_visible_cores_are_read(monkeypatch, named, expected):
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", named)
    assert module.visible_cores() == expected


@pytest.mark.parametrize("named", ["", "x", "1-", "3-1", "0,0", "-1"])
def test_what_names_no_cores_is_refused(monkeypatch, named):
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", named)
    with pytest.raises(BadInput, match="NEURON_RT_VISIBLE_CORES"):
        module.visible_cores()


def test_cores_can_be_counted(monkeypatch):
    monkeypatch.delenv("NEURON_RT_VISIBLE_CORES", raising=False)
    assert module.visible_cores() == (0, 1, 2, 3)
    module.visible_cores.cache_clear()
    monkeypatch.setenv("NEURON_RT_NUM_CORES", "2")
    assert module.visible_cores() == (0, 1)
    module.visible_cores.cache_clear()
    monkeypatch.setenv("NEURON_RT_NUM_CORES", "none")
    with pytest.raises(BadInput, match="NEURON_RT_NUM_CORES"):
        module.visible_cores()


def test_the_target_is_trn2_unless_named(monkeypatch):
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    assert module.target().name == "trn2"
    module.target.cache_clear()
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    assert module.target().name == "trn1"


def test_an_index_is_a_core_or_a_named_error(monkeypatch):
    monkeypatch.setenv("NEURON_RT_VISIBLE_CORES", "4-5")
    assert [module.visible_core(index) for index in (0, 1)] == [0, 1]
    for index in (-1, 2):
        with pytest.raises(module.NoSuchCore, match=f"neuron:{index} does not exist: this process"):
            module.visible_core(index)


def test_a_launched_process_means_its_one_core_by_its_rank(monkeypatch):
    monkeypatch.delenv("NEURON_RT_VISIBLE_CORES", raising=False)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert module.visible_core(3) == 0
    with pytest.raises(module.NoSuchCore) as caught:
        module.visible_core(2)
    assert "NEURON_RT_VISIBLE_CORES=0-2" in caught.value.fix
    assert caught.value.line.file == __file__


GIB = 1024**3
CHIPS = [("trn1", 16, 2), ("inf2", 16, 2), ("trn2", 12, 8), ("trn3", 18, 8)]


@pytest.mark.parametrize(("name", "gib", "number"), CHIPS)
def test_a_device_may_be_one_core_of_its_chip(monkeypatch, name, gib, number):
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    device = module.device_core(arch.target(name))
    assert (device.physical_cores, device.hbm_bytes) == (1, gib * GIB)
    assert device.peak_flop_per_s == peak_flop_per_s(arch.target(name).core)
    assert str(device) == f"one of the {number} NeuronCores of {name}, {gib} GiB of HBM"


@pytest.mark.parametrize(("name", "gib", "number"), CHIPS)
@pytest.mark.parametrize("configured", [None, "", "2"])
def test_a_logical_core_has_two_shares_and_the_peak_of_two(
    monkeypatch, name, gib, number, configured
):
    set_or_unset(monkeypatch, configured)
    device = module.device_core(arch.target(name))
    degree = 2 if number == 8 else 1  # of a step on several chips; v2 has no logical cores
    assert (device.physical_cores, device.hbm_bytes) == (degree, degree * gib * GIB)
    assert device.peak_flop_per_s == degree * peak_flop_per_s(arch.target(name).core)
    pair = f"a logical NeuronCore of {name}: two of its {number} NeuronCores, {2 * gib} GiB of HBM"
    assert (str(device) == pair) is (degree == 2)


@pytest.mark.parametrize(
    ("cores", "flagged", "configured", "wanted"),
    [
        (None, None, None, 2),
        (None, None, "1", 1),
        (None, None, "2", 2),
        (None, 2, None, 2),
        (None, 1, None, 1),
        (None, 2, "2", 2),
        (1, None, "2", 1),  # who says it compiles for another device
        (2, 2, "1", 2),
    ],
)
def test_a_graph_is_compiled_for_the_cores_that_are_asked_for(
    monkeypatch, cores, flagged, configured, wanted
):
    set_or_unset(monkeypatch, configured)
    flags = Flags(logical_nc_config=flagged)
    assert module.compiled_cores(arch.target("trn2"), flags, cores) == wanted
    assert module.compiled_cores(arch.target("trn1"), Flags(), None) == 1


def set_or_unset(monkeypatch, value):
    if value is None:
        monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG", raising=False)
    else:
        monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", value)


@pytest.mark.parametrize(
    ("cores", "configured", "said"),
    [(1, None, "--lnc 1"), (None, "1", "NEURON_LOGICAL_NC_CONFIG=1")],
)
def test_the_compiler_and_the_runtime_must_agree(monkeypatch, cores, configured, said):
    set_or_unset(monkeypatch, configured)
    reason = f"--logical-nc-config=2 and {said} on trn2; legal: the same number"
    with pytest.raises(BadInput, match=reason) as caught:
        module.compiled_cores(arch.target("trn2"), Flags(logical_nc_config=2), cores)
    assert "logical-neuroncore-config.rst" in str(caught.value)


def test_a_process_compiles_for_its_own_devices(monkeypatch):
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    module.require_same_cores(Flags())
    module.require_same_cores(Flags(logical_nc_config=2))
    with pytest.raises(BadInput, match="--logical-nc-config=1 on trn2; legal: 2, as a device"):
        module.require_same_cores(Flags(logical_nc_config=1))


def test_titles_name_a_logical_core():
    assert module.device_text("trn2", 1) == "trn2"
    assert module.device_text("trn2", 2) == "trn2 (LNC=2)"


@pytest.mark.parametrize(
    ("chip", "value", "legal"),
    [("trn1", "2", "1"), ("trn2", "3", "1 or 2")],
)
def test_another_number_of_cores_is_refused(monkeypatch, chip, value, legal):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", chip)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", value)
    with pytest.raises(
        BadInput, match=f"NEURON_LOGICAL_NC_CONFIG={value!r} on {chip}; legal: {legal}\n"
    ):
        module.device_core()


@pytest.mark.parametrize(
    ("chip", "config", "number", "instance"),
    [("trn2", "1", 128, "trn2"), ("trn2", "2", 64, "trn2"), ("trn1", "1", 32, "trn1"),
     ("inf2", "1", 24, "inf2.48xlarge")],
)  # fmt: skip
def test_a_process_has_no_more_cores_than_an_instance(monkeypatch, chip, config, number, instance):
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", chip)
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", config)
    monkeypatch.delenv("NEURON_RT_VISIBLE_CORES", raising=False)
    monkeypatch.setenv("NEURON_RT_NUM_CORES", str(number))
    assert len(module.visible_cores()) == number
    for variable, value in (
        ("NEURON_RT_NUM_CORES", str(number + 1)), ("NEURON_RT_VISIBLE_CORES", str(number))
    ):  # fmt: skip
        module.visible_cores.cache_clear()
        monkeypatch.setenv(variable, value)
        with pytest.raises(
            BadInput, match=f"asks for {number + 1} cores; {instance}.* has {number}"
        ):
            module.visible_cores()


def test_another_chip_has_its_own_logical_cores_and_the_setting_of_the_process(monkeypatch):
    def physical_cores(here, name):
        monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", here)
        module.target.cache_clear()
        module.logical_config.cache_clear()
        return module.device_core(arch.target(name)).physical_cores

    monkeypatch.delenv("NEURON_LOGICAL_NC_CONFIG", raising=False)
    assert [physical_cores("trn1", name) for name in ("trn1", "trn2", "trn3")] == [1, 2, 2]
    assert [physical_cores("trn2", name) for name in ("trn1", "trn2", "trn3")] == [1, 2, 2]
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "1")
    assert [physical_cores("trn1", name) for name in ("trn1", "trn2", "trn3")] == [1, 1, 1]
    monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", "2")
    assert [physical_cores("trn2", name) for name in ("trn1", "trn2", "trn3")] == [1, 2, 2]
