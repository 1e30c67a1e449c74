"""A sample of `tests/opinfo/conform.py` in seconds; the whole is docs/generated/torch-ops.md."""

import functools
import re
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
pytest.importorskip("expecttest", reason="torch.testing._internal imports it")

sys.path.insert(0, str(Path(__file__).parent))
from checks import Outcome, applies, check
from core import DIRECT, core_operators, direct_times, how
from remains import REMAINS, surprises

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "torch-ops.md"
SAMPLE = [
    "add", "mul", "matmul", "sum", "cat", "where", "sort", "topk", "gather", "index_put", "to",
    "nn.functional.conv2d", "nn.functional.avg_pool2d", "nn.functional.layer_norm", "cumsum",
    "as_strided.partial_views", "fft.fft", "bernoulli", "linalg.qr", "T", "lu", "to_sparse",
]  # fmt: skip


@functools.cache
def entry(name):
    """PyTorch's entry of an operator; the import of all of them takes five seconds."""
    from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415

    return next(entry for entry in op_db if entry.full_name == name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLE)
@pytest.mark.parametrize("kind", ["forward", "gradient", "chip"])
def test_an_entry_is_as_the_page_says(kind, name):
    if not applies(kind, entry(name)):
        return
    outcome = check(kind, entry(name))
    assert bool(outcome.failure) == (name in REMAINS[kind]), outcome.failure


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["add", "sgn", "index_put", "nn.functional.layer_norm", "cumsum"])
def test_an_entry_is_the_same_compiled(name):
    outcome = check("compiled", entry(name))
    assert not outcome.failure
    assert outcome.compared


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exact", "exact_gradient"])
@pytest.mark.parametrize("name", ["add", "matmul", "sort", "gather", "nn.functional.conv2d"])
def test_an_entry_runs_instruction_by_instruction(kind, name):
    if not applies(kind, entry(name)):
        return
    outcome = check(kind, entry(name))
    assert not outcome.failure
    assert outcome.compared


def test_an_unexpected_pass_and_an_unexpected_failure_are_surprises():
    outcomes = {kind: {} for kind in REMAINS}
    outcomes["forward"] = {"mode": Outcome(compared=1), "add": Outcome(failure="sample 0: strides")}
    assert surprises(outcomes) == [
        "forward add: sample 0: strides",
        "forward mode: listed as a failure, and passes",
    ]


@pytest.mark.parametrize("call", DIRECT, ids=lambda call: call[0].name())
def test_a_core_operator_that_no_sample_calls_has_a_time(call, direct):
    name = call[0].name()
    kind, kernels = how(name, direct)
    assert kind in ("lowered", "composed"), kernels


@pytest.fixture(scope="module")
def direct():
    """The times of all direct calls."""
    return direct_times()


def test_the_page_has_every_core_operator_and_what_was_promised():
    text = PAGE.read_text(encoding="utf-8")
    rows = dict(
        re.findall(r"^\| `([\w.]+)` \| (lowered|composed|nothing|host) \|", text, re.MULTILINE)
    )
    assert list(rows) == [name.removeprefix("aten::") for name in core_operators()]
    assert sum(kind in ("lowered", "composed") for kind in rows.values()) >= 170
    of_check = r"^\| [a-z][^|]* \| \d+ \| (\d+) \| \d+ \| \d+ \| \d+ \|$"
    passed = [int(number) for number in re.findall(of_check, text, re.MULTILINE)]
    assert passed[0] >= 675
    assert passed[1] >= 530


def test_what_remains_stands_on_the_page_with_its_reason():
    text = PAGE.read_text(encoding="utf-8")
    assert "not known yet" not in text
    for kind, listed in REMAINS.items():
        for name, reason in listed.items():
            assert f"| {kind} | `{name}` | {reason} |" in text
