import re

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

from trnsim.device.numerics import numerics
from trnsim.device.step_time import step_time
from trnsim.torch.call_recording import recording


@pytest.fixture(scope="module")
def step():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 2, 128, batch_first=True)
    model = torch.nn.Sequential(
        torch.nn.Embedding(100, 64),
        torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
        torch.nn.Linear(64, 100),
    ).to("neuron")
    tokens = torch.randint(0, 100, (2, 32)).to("neuron")
    optimizer = torch.optim.AdamW(model.parameters())
    with recording() as found:
        with torch.autocast("neuron", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target", ["trn1", "inf2", "trn2", "trn3"])
def test_every_call_of_a_transformers_training_step_has_a_time(step, target):
    time = step_time(step, target)
    assert not time.missing
    assert 0 < time.device_time_s < 1e-2
    assert time.launch_s > 0


@pytest.mark.slow
def test_parts_add_up_to_the_whole(step):
    time = step_time(step, "trn2")
    for key in ("operation", "module", "phase"):
        rows = time.by(key)
        assert sum(taken for _, _, taken in rows) == pytest.approx(time.device_time_s)
        assert sum(number for _, number, _ in rows) == len(step.events)
        assert [taken for _, _, taken in rows] == sorted((r[2] for r in rows), reverse=True)


@pytest.mark.slow
def test_products_are_counted_forward_and_twice_backward(step):
    time = step_time(step, "trn2")
    forward = sum(time.times[e.call].flop for e in step.events if e.phase.value == "forward")
    assert time.flop == pytest.approx(3 * forward)


def test_an_operator_without_a_time_is_named_and_adds_nothing():
    x = torch.randn(64, 64, device="neuron")
    with recording() as found:
        torch.special.bessel_j0(x)
    time = step_time(found, "trn2")
    assert list(time.missing) == [
        "aten::special_bessel_j0 has no lowering to the chip's instructions yet"
    ]
    assert time.device_time_s == 0


def small_model():
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 2, 48, dropout=0.0, batch_first=True)
    return torch.nn.Sequential(
        torch.nn.Linear(12, 32), layer, torch.nn.Flatten(), torch.nn.Linear(160, 3)
    ).to("neuron")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using `torch.compile.module.`")
@pytest.mark.parametrize("is_compiled", [False, True])
def test_a_step_takes_the_same_time_however_its_values_are_computed(is_compiled):
    """Forward, backward and optimizer; the first pass of a compiled model is its tracing."""
    taken = {}
    for kind, is_stochastic in [
        ("fast", False), ("fast", True), ("exact", False), ("shapes", False)
    ]:  # fmt: skip
        torch._dynamo.reset()
        model = small_model()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        step = torch.compile(model, backend="neuron", dynamic=False) if is_compiled else model
        x = torch.randn(2, 5, 12).to("neuron")
        with numerics(kind, is_stochastic=is_stochastic):
            step(x).square().sum().backward()
            with recording() as found:
                step(x).square().sum().backward()
                optimizer.step()
        time = step_time(found, "trn2")
        assert not time.missing
        rows = [(re.sub("-[0-9]+$", "", n), calls, s) for n, calls, s in time.by("operation")]
        taken[kind, is_stochastic] = (
            {name: number for name, number, _ in rows},
            pytest.approx({name: seconds for name, _, seconds in rows}),
            {name: seconds for name, _, seconds in rows},
        )
    for calls, times, _ in taken.values():
        assert calls == taken["fast", False][0]
        assert times == taken["fast", False][2]


DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.int16,
          torch.int8, torch.uint8, torch.bool]  # fmt: skip
FILLS = {
    "zeros": lambda n, dtype: torch.zeros(n, dtype=dtype, device="neuron"),
    "ones": lambda n, dtype: torch.ones(n, dtype=dtype, device="neuron"),
    "full": lambda n, dtype: torch.full((n,), 1, dtype=dtype, device="neuron"),
    "expand": lambda n, dtype: torch.ones((), dtype=dtype, device="neuron").expand(n).clone(),
    "repeat": lambda n, dtype: torch.ones(1, 1, dtype=dtype, device="neuron").repeat(1, n),
}


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FILLS)
def test_a_fill_takes_what_its_bytes_take_in_every_dtype(name, dtype):
    for elements in (1, 127, 128, 129, 1 << 20, (1 << 20) + 1):
        with recording() as found, numerics("exact") as on_host:
            tensor = FILLS[name](elements, dtype)
        assert not on_host
        values = tensor.cpu().flatten()
        assert values.dtype is dtype
        assert bool((values == (0 if name == "zeros" else 1)).all())
        time = step_time(found, "trn2")
        assert not time.missing
        nbytes = sum(k.hbm_bytes for t in time.times.values() for k in t.kernels)
        assert time.device_time_s < 10e-6 + 1.5 * nbytes / 368e9
