import sys
from types import ModuleType

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.errors import BadInput
from trnsim.torch.clients import lightning

PACKAGE = "a_lightning"


class Registry(dict):
    """Classes by name, as Lightning keeps them."""

    def register(self, name, strategy, description=None, **options):
        self[name] = {"strategy": strategy, "init_params": options, "description": description}


class Accelerator:
    pass


class SingleDeviceStrategy:
    strategy_name = "single_device"

    def __init__(self, device):
        self.root_device = device


class DDPStrategy:
    strategy_name = "ddp"

    def __init__(self, process_group_backend=None, start_method="popen"):
        self.process_group_backend, self.start_method = process_group_backend, start_method

    def determine_ddp_device_ids(self):
        return [0]


class MixedPrecision:
    def __init__(self, precision, device):
        self.precision, self.device = precision, device


class Connector:
    """Lightning's choice: it knows the CPU and CUDA."""

    def __init__(self, accelerator, strategy, precision="16-mixed"):
        self.accelerator, self._strategy_flag, self.precision = accelerator, strategy, precision
        self._parallel_devices = [torch.device("neuron:0")]

    def _choose_auto_accelerator(self):
        return "cpu"

    def _init_strategy(self):
        self.strategy = self._strategy_flag

    def _check_and_init_precision(self):
        return MixedPrecision(self.precision, "cuda")


@pytest.fixture
def connector(monkeypatch):
    """The module of the connector of a Lightning that was served."""
    parts = {
        "accelerators": {"Accelerator": Accelerator, "AcceleratorRegistry": Registry()},
        "strategies": {
            "SingleDeviceStrategy": SingleDeviceStrategy,
            "DDPStrategy": DDPStrategy,
            "StrategyRegistry": Registry(),
        },
        "plugins.precision": {"MixedPrecision": MixedPrecision},
        "trainer.trainer": {"_AcceleratorConnector": Connector},
        "trainer.connectors.accelerator_connector": {"_AcceleratorConnector": Connector},
    }
    for name, content in parts.items():
        module = ModuleType(f"{PACKAGE}.{name}")
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    registry = parts["strategies"]["StrategyRegistry"]
    registry.register("ddp_spawn", DDPStrategy, start_method="spawn")
    registry.register("other", object)
    lightning.apply(module)
    return module


def test_the_device_is_chosen_before_the_cpu(connector):
    assert connector._AcceleratorConnector(None, None)._choose_auto_accelerator() == "neuron"
    trainer = sys.modules[f"{PACKAGE}.trainer.trainer"]
    assert trainer._AcceleratorConnector is connector._AcceleratorConnector


@pytest.mark.parametrize(("flag", "start_method"), [("ddp_spawn", "spawn"), ("neuron_ddp", None)])
def test_a_named_parallel_strategy_is_ours_with_its_options(connector, flag, start_method):
    chosen = connector._AcceleratorConnector(connector.NeuronAccelerator(), flag)
    chosen._init_strategy()
    if start_method is None:
        assert chosen.strategy == flag
        return
    assert isinstance(chosen.strategy, connector.NeuronDDPStrategy)
    assert chosen.strategy.start_method == start_method
    assert chosen.strategy.process_group_backend == "neuron"
    assert chosen.strategy.determine_ddp_device_ids() is None


def test_the_default_strategy_is_on_the_device_and_a_users_own_stays(connector):
    default = SingleDeviceStrategy(torch.device("cpu"))
    chosen = connector._AcceleratorConnector(connector.NeuronAccelerator(), default)
    chosen._init_strategy()
    assert isinstance(chosen.strategy, connector.SingleNeuronStrategy)
    assert chosen.strategy.root_device == torch.device("neuron:0")
    own = SingleDeviceStrategy(torch.device("neuron:0"))
    chosen = connector._AcceleratorConnector(connector.NeuronAccelerator(), own)
    chosen._init_strategy()
    assert chosen.strategy is own


def test_mixed_precision_casts_on_the_device(connector):
    ours = connector._AcceleratorConnector(connector.NeuronAccelerator(), None)
    assert ours._check_and_init_precision().device == "neuron"
    theirs = connector._AcceleratorConnector(Accelerator(), None)
    assert theirs._check_and_init_precision().device == "cuda"


def test_another_accelerators_strategy_is_left_alone(connector):
    chosen = connector._AcceleratorConnector(Accelerator(), "ddp_spawn")
    chosen._init_strategy()
    assert chosen.strategy == "ddp_spawn"


@pytest.mark.parametrize(
    ("devices", "expected"), [(1, [0]), ("2", [0, 1]), (-1, [0, 1, 2, 3]), ([0], [0])]
)
def test_devices_are_counted_or_listed(devices, expected):
    assert lightning.NeuronAccelerator.parse_devices(devices) == expected


@pytest.mark.parametrize("devices", ["all", "0,one", ""])
def test_devices_that_are_no_numbers_are_refused(devices):
    with pytest.raises(BadInput, match=f"devices='{devices}'.; legal: a number of NeuronCores"):
        lightning.NeuronAccelerator.parse_devices(devices)


def test_a_list_of_devices_may_be_a_string():
    assert lightning.NeuronAccelerator.parse_devices("0,1") == [0, 1]


def test_each_process_has_its_own_neuron_0():
    own = torch.device("neuron:0")
    assert lightning.NeuronAccelerator.get_parallel_devices([0]) == [own]
    assert lightning.NeuronAccelerator.get_parallel_devices([0, 1]) == [own, own]
    with pytest.raises(RuntimeError, match="neuron:7 does not exist"):
        lightning.NeuronAccelerator.get_parallel_devices([7])


def test_the_accelerator_refuses_to_run_elsewhere_unseen():
    accelerator = lightning.NeuronAccelerator()
    accelerator.setup_device(torch.device("neuron:0"))
    with pytest.raises(BadInput, match="would run accelerator='neuron' on cpu"):
        accelerator.setup_device(torch.device("cpu"))


def test_the_accelerator_tells_the_memory():
    accelerator = lightning.NeuronAccelerator()
    accelerator.setup(None)
    assert accelerator.get_device_stats("neuron:0")["allocated_bytes.all.current"] >= 0
    assert (accelerator.name(), accelerator.is_available()) == ("neuron", True)
    assert accelerator.auto_device_count() == torch.neuron.device_count()
    accelerator.teardown()


def test_a_rank_counts_the_cores_of_all(monkeypatch):
    """Lightning starts the program anew for each rank, which is to count as the first did."""
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert lightning.NeuronAccelerator.auto_device_count() == 4
    assert lightning.NeuronAccelerator.parse_devices(-1) == [0, 1, 2, 3]
