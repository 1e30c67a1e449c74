"""xm's names in a program of one rank, by their documented meaning."""

import io

import pytest
import torch

from trnsim.errors import BadInput


def test_the_device_is_xla_and_the_old_names_warn_of_the_new():
    import torch_xla
    import torch_xla.core.xla_model as xm

    with pytest.warns(DeprecationWarning, match=r"Use torch_xla.device instead"):
        assert xm.xla_device() == torch_xla.device() == torch.device("xla:0")
    with pytest.warns(DeprecationWarning, match=r"torch_xla\.device"):
        assert xm.xla_device(1) == torch_xla.device(1) == torch.device("xla:1")
    with pytest.warns(DeprecationWarning, match=r"Use torch_xla.sync instead"):
        xm.mark_step()
    names = xm.get_xla_supported_devices()
    assert names[0] == "xla:0"
    assert len(names) == torch_xla.device_count() == len(torch_xla.devices())
    assert xm.get_xla_supported_devices(max_devices=1) == ["xla:0"]
    assert xm.get_xla_supported_devices(1) == xm.get_xla_supported_devices("NEURON", 1) == names[:1]
    assert xm.xla_device_hw("xla") == "NEURON"
    assert xm.xla_device_hw("cpu") == "CPU"
    assert xm.xla_device_kind() == "trn2"
    assert xm.xla_real_devices(["xla:1", "cpu"]) == ["NEURON:1", "CPU:0"]
    assert torch_xla.real_devices() == xm.xla_real_devices()
    assert xm.is_xla_tensor(torch.ones(1, device="xla"))
    assert not xm.is_xla_tensor(torch.ones(1))
    assert torch_xla.__version__ == "2.9.0"


def test_names_that_have_nothing_to_do_do_nothing():
    import torch_xla
    import torch_xla.core.xla_model as xm

    tensor = torch.ones(1, device="xla")
    for result in (
        xm.wait_device_ops(), xm.unlazy([tensor]), xm.optimization_barrier_([tensor]),
        xm.set_replication("xla", []), torch_xla._XLAC._set_ir_debug(True),
        torch_xla._XLAC._xla_sync_multi([tensor], []),
    ):  # fmt: skip
        assert result is None
    assert tensor.tolist() == [1.0]


@pytest.mark.parametrize(
    ("tensors", "told"),
    [([None], "a list with None"), (None, "None"), (5, "5"), ([torch.ones(1), 2], "a list with 2")],
)
def test_what_is_no_tensor_is_not_computed(tensors, told):
    import torch_xla
    import torch_xla.core.xla_model as xm

    for name, compute in (
        ("unlazy", xm.unlazy),
        ("_xla_sync_multi", lambda values: torch_xla._XLAC._xla_sync_multi(values, [])),
        ("_get_xla_tensors_text", torch_xla._XLAC._get_xla_tensors_text),
    ):
        with pytest.raises(BadInput, match=f"{name} of {told}; legal: a list of tensors") as error:
            compute(tensors)
        assert isinstance(error.value, TypeError)


def test_parameters_are_those_of_a_model():
    import torch_xla.core.xla_model as xm

    with pytest.raises(BadInput, match=r"broadcast_master_param of a NoneType; legal: a torch\.nn"):
        xm.broadcast_master_param(None)


def test_closures_of_a_step_see_values_after_it():
    import torch_xla
    import torch_xla.core.xla_model as xm

    seen, total = [], torch.zeros(1, device="xla")
    xm.add_step_closure(lambda value: seen.append(value.item()), args=(total,))
    xm.add_step_closure(seen.append, args=("async",), run_async=True)
    total += 2
    assert seen == []
    torch_xla.sync()
    assert seen == [2.0, "async"]


def test_a_step_and_a_compiled_function_end_steps_before_and_after():
    import torch_xla
    import torch_xla.debug.metrics as met

    with torch_xla.step():
        assert met.counter_value("MarkStep") == 1
    assert met.counter_value("MarkStep") == 2

    @torch_xla.compile
    def add(first, second=1):
        """Adds."""
        return first + second

    assert add(torch.ones(1, device="xla"), second=2).item() == 3.0
    assert met.counter_value("MarkStep") == 4
    assert add.__doc__ == "Adds."
    with torch_xla.compile(), pytest.raises(ValueError, match="x"):
        raise ValueError("x")
    assert met.counter_value("MarkStep") == 6


def test_a_compiled_function_keeps_its_limits():
    import torch_xla

    x = torch.ones(2, 3, device="xla")

    @torch_xla.compile(full_graph=True)
    def read(x):
        return x * 2 if x.sum().item() else x

    line = read.__wrapped__.__code__.co_firstlineno + 2
    with pytest.raises(
        RuntimeError, match=r"full_graph=True: a value is read within it \(aten::_lo"
    ):
        read(x)
    with pytest.raises(RuntimeError, match=f"{__file__}:{line}"):
        read(x)
    doubled = torch_xla.compile(lambda x: x * 2, True, "double", num_different_graphs_allowed=1)
    assert doubled(x).tolist() == doubled(x).tolist() == [[2.0] * 3] * 2
    with pytest.raises(RuntimeError, match=r"compile of double with .*=1: its steps have 2 prog"):
        doubled(x[:1].clone())
    with pytest.raises(ZeroDivisionError), torch_xla.compile(full_graph=True):
        x.sum().item() / 0


def test_compile_refuses_what_is_no_function_and_no_number_of_programs():
    import torch_xla

    with pytest.raises(RuntimeError, match=r"compile of 5; legal: a function, or None for"):
        torch_xla.compile(5)
    for number in ("2", [1], 1.5):
        with pytest.raises(RuntimeError, match=r"num_different_graphs_allowed=.*; legal: a whole"):
            torch_xla.compile(lambda x: x, num_different_graphs_allowed=number)


def test_a_lone_rank_is_the_master_of_a_world_of_one():
    import torch_xla.core.xla_model as xm

    assert xm.get_ordinal() == xm.get_local_ordinal() == 0
    assert xm.xrt_world_size() == 1
    assert xm.is_master_ordinal()
    assert xm.is_master_ordinal(local=False)
    text = io.StringIO()
    xm.master_print("a", 1, fd=text)
    xm.master_print("b", fd=text, local=True, flush=True)
    assert text.getvalue() == "a 1\nb\n"
    assert (
        xm.do_on_ordinals(lambda value: value.device.type, (torch.ones(1, device="xla"),)) == "cpu"
    )
    assert xm.do_on_ordinals(lambda: 1, (), 1) is None


def test_an_optimizer_steps_and_with_a_barrier_ends_the_step():
    import torch_xla.core.xla_model as xm
    import torch_xla.debug.metrics as met

    parameter = torch.nn.Parameter(torch.ones(1, device="xla"))
    optimizer = torch.optim.SGD([parameter, torch.nn.Parameter(torch.ones(1))], lr=0.5)
    parameter.grad = torch.ones(1, device="xla")
    assert xm._fetch_gradients(optimizer) == [parameter.grad]
    assert xm.optimizer_step(optimizer) is None
    assert parameter.item() == 0.5
    assert met.counter_value("MarkStep") is None
    loss = xm.optimizer_step(optimizer, barrier=True, optimizer_args={"closure": lambda: 7})
    assert loss == 7
    assert met.counter_value("MarkStep") == 1


def test_what_steps_without_parameters_is_no_optimizer():
    import torch_xla.core.xla_model as xm

    for other in (None, torch.nn.Linear(1, 1)):
        with pytest.raises(ValueError, match=f"of a {type(other).__name__}; legal: an optimizer"):
            xm.optimizer_step(other)


def test_a_saved_state_is_on_the_host(tmp_path):
    import torch_xla.core.xla_model as xm

    model = torch.nn.Linear(2, 2).to("xla")
    xm.save({"state": model.state_dict(), "step": 3}, tmp_path / "a.pt")
    state = torch.load(tmp_path / "a.pt")
    assert state["step"] == 3
    assert state["state"]["weight"].device.type == "cpu"
    torch.testing.assert_close(state["state"]["weight"], model.weight.detach().cpu())
    assert xm._maybe_convert_to_cpu([model.weight])[0].device.type == "cpu"
    assert xm._maybe_convert_to_cpu([model.weight], convert=False)[0] is model.weight
    file = io.BytesIO()
    xm.save(torch.ones(1, device="xla"), file, master_only=False)
    assert file.tell()


def test_data_of_the_host_are_sent_to_the_device():
    import torch_xla.core.xla_model as xm

    sent = xm.send_cpu_data_to_device({"x": torch.ones(1), "y": [torch.ones(1), "z"]}, "xla")
    assert sent["x"].is_xla
    assert sent["y"][0].is_xla
    assert sent["y"][1] == "z"
    assert xm.send_cpu_data_to_device(torch.ones(1), torch.device("xla"))[0].is_xla


@pytest.mark.parametrize("seed", [0, 5, 2**40, 2**64 - 1])
def test_a_state_of_the_seed_repeats_what_follows(seed):
    import torch_xla
    import torch_xla.core.xla_model as xm

    xm.set_rng_state(seed)
    first = torch.rand(3, device="xla")
    state = xm.get_rng_state()
    second = torch.rand(3, device="xla")
    xm.set_rng_state(state)
    assert torch.equal(torch.rand(3, device="xla"), second)
    torch_xla.manual_seed(seed)
    assert torch.equal(torch.rand(3, device="xla"), first)
    assert type(state) is int


def test_a_forked_state_is_restored_but_where_it_is_not_enabled():
    import torch_xla.core.xla_model as xm

    xm.set_rng_state(5)
    with xm.fork_rng():
        xm.set_rng_state(7)
    assert xm.get_rng_state() == 5
    with xm.fork_rng(enabled=False):
        xm.set_rng_state(7)
    assert xm.get_rng_state() == 7


def test_memory_is_that_of_the_device():
    import torch_xla.core.xla_model as xm

    before = xm.get_memory_info()
    tensor = torch.ones(1024, device="xla")
    after = xm.get_memory_info("xla")
    assert after["bytes_used"] - before["bytes_used"] >= tensor.nbytes
    assert after["bytes_limit"] == torch.xla.get_device_properties().total_memory
    assert after["peak_bytes_used"] >= after["bytes_used"]


def test_rates_count_events_and_forget():
    import torch_xla.core.xla_model as xm

    times = iter([0.0, 2.0, 4.0, 5.0, 5.0])
    xm.time = type("Clock", (), {"time": lambda: next(times)})
    tracker = xm.RateTracker(smooth_factor=0.5)
    tracker.add(10)
    assert tracker.rate() == 5.0
    tracker.add(2)
    assert tracker.rate() == 0.5 * 5.0 + 0.5 * 1.0
    assert tracker.global_rate() == 12 / 5
    assert tracker.rate() == 1.5


def test_a_rate_of_nothing_counts_as_a_rate(monkeypatch):
    import torch_xla.core.xla_model as xm

    times = iter([0.0, 1.0, 2.0])
    monkeypatch.setattr(xm.time, "time", lambda: next(times))
    tracker = xm.RateTracker(smooth_factor=0.4)
    assert tracker.rate() == 0
    tracker.add(100)
    assert tracker.rate() == pytest.approx(60)
