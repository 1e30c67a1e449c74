import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

import torch.nn.functional as F  # noqa: N812  its usual name

from trnsim.device.numerics import numerics
from trnsim.device.step_time import step_time
from trnsim.torch.call_recording import recording

X = torch.full((4, 6), 0.5)


def test_random_numbers_stay_the_hosts(agree):
    def drop(x):
        torch.manual_seed(0)
        return F.dropout(x, 0.5)

    agree(drop, X)


DRAWN = {
    "dropout": lambda x: F.dropout(x, 0.5),
    "bernoulli": torch.bernoulli,
    "bernoulli_": lambda x: x.bernoulli_(0.3),
    "uniform_": lambda x: x.uniform_(-1, 1),
    "normal_": lambda x: x.normal_(1.0, 2.0),
    "normal": lambda x: torch.normal(x, x),
    "randn": lambda x: torch.randn(4, 6, device=x.device),
    "rand": lambda x: torch.rand(4, 6, device=x.device),
    "randint": lambda x: torch.randint(3, 9, (4, 6), device=x.device),
    "rand_like": torch.rand_like,
    "randn_like": torch.randn_like,
    "randint_like": lambda x: torch.randint_like(x, 3, 9),
    "random_": lambda x: x.random_(),
    "exponential_": lambda x: x.exponential_(2.0),
}


@pytest.mark.parametrize("name", DRAWN)
def test_drawing_has_a_time(name):
    x = X.to("neuron")
    with recording() as found:
        DRAWN[name](x)
    step = step_time(found, "trn2")
    assert not step.missing
    assert step.device_time_s > 0


def test_what_kernels_draw_has_the_moments_that_were_asked_for():
    import numpy as np  # noqa: PLC0415  beside torch

    from trnsim.lower import evaluate  # noqa: PLC0415  likewise
    from trnsim.torch.aten.operator_call import build, call_of  # noqa: PLC0415  likewise

    x = torch.zeros(128, 256)
    for name, arguments, mean, deviation in (
        ("aten::normal_", (x, 3.0, 2.0), 3.0, 2.0),
        ("aten::uniform_", (x, -1.0, 1.0), 0.0, 3**-0.5),
        ("aten::exponential_", (x, 2.0), 0.5, 0.5),
        ("aten::bernoulli_.float", (x, 0.25), 0.25, 0.1875**0.5),
    ):
        graph = build(call_of(name, arguments, {}, x)).graph
        (drawn,) = evaluate(graph, [x.numpy()] * len(graph.inputs))
        assert np.mean(drawn) == pytest.approx(mean, abs=0.03), name
        assert np.std(drawn) == pytest.approx(deviation, abs=0.03), name


def test_one_probability_may_be_that_of_all_elements():
    with numerics("exact"):
        x = torch.zeros(3, 4, device="neuron").bernoulli_(torch.ones(1, device="neuron"))
    assert x.tolist() == [[1.0] * 4] * 3
