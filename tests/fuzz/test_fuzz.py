"""Random kernels of fixed seeds, and whether the fuzzer would see a mistake. More: `make fuzz`."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from again import check_again
from generate import generate
from kernel import Alloc, Claim, Kernel, Loop, Step, View, While, op
from meanings import MEANINGS
from mutate import mutate
from runner import check, check_refusal, expected, shrink
from script import script

from trnsim.dtypes import rounding
from trnsim.isa.language.operator_tables import ALU
from trnsim.isa.numerics import xorwow
from trnsim.isa.tensor import matmul_mx
from trnsim.isa.vector import elementwise
from trnsim.program import follower

pytestmark = pytest.mark.filterwarnings("ignore::trnsim.nki.notices.DynamicLoopWarning")
SEEDS = range(120)
GROUP = 20


def opcodes(steps):
    for step in steps:
        if isinstance(step, Loop | While | Claim):
            yield from opcodes(step.body)
        elif not isinstance(step, Alloc):
            yield step.opcode


@pytest.mark.slow
@pytest.mark.parametrize("first", SEEDS[::GROUP])
def test_random_legal_kernels_hold_what_the_oracle_says(first):
    for seed in range(first, first + GROUP):
        failure, tally = check(generate(seed))
        assert failure is None, f"seed {seed}: {failure.text}"
        assert tally.exact + tally.bounded > tally.unknown


@pytest.mark.slow
@pytest.mark.parametrize("first", SEEDS[::GROUP])
def test_random_kernels_called_again_on_other_inputs_do_what_fresh_ones_do(first):
    for seed in range(first, first + GROUP, 2):
        failure = check_again(generate(seed))
        assert failure is None, f"seed {seed}: {failure.kind}: {failure.text}"


def begins_without_tensor(kernel):
    return "ndarray" not in kernel.source().split("\n")[2]


@pytest.mark.slow
@pytest.mark.parametrize("trusted", ["line", "tensors"])
def test_a_record_that_is_followed_too_far_is_found(trusted, monkeypatch):
    agrees = follower.Follower.agrees

    def trusting(follower, info, line, reads, writes, named, awaited):
        if follower.position < len(follower.record.steps):
            step = follower.record.steps[follower.position]
            line = step.line if trusted == "line" else line
            if trusted == "tensors" and step.info is info and step.line == line:
                follower.position += 1
                return True
        return agrees(follower, info, line, reads, writes, named, awaited)

    def is_found(kernel):
        try:
            return check_again(kernel) is not None
        except IndexError:  # of a tensor that was never compared
            return trusted == "tensors"

    monkeypatch.setattr(follower.Follower, "agrees", trusting)
    # A tensor has a line of its own, by which the record is left: what stands before all tensors.
    kernels = (generate(seed) for seed in range(400))
    asked = (one for one in kernels if trusted == "tensors" or begins_without_tensor(one))
    assert any(map(is_found, asked))


@pytest.mark.slow_cases("0", "40", "60", "100")
@pytest.mark.slow_cases("80")
@pytest.mark.parametrize("first", SEEDS[::GROUP])
def test_random_mistakes_end_in_a_named_error_with_its_line_and_a_fix(first):
    for seed in range(first, first + GROUP):
        kernel, must_fail = mutate(generate(seed), seed)
        failure = check_refusal(kernel, must_fail=must_fail)
        assert failure is None, f"seed {seed}: {failure.kind}: {failure.text}\n{kernel.source()}"


def test_a_seed_is_a_kernel():
    assert generate(7).source() == generate(7).source()
    assert generate(7).source() != generate(8).source()


@pytest.mark.slow
def test_the_seeds_cover_every_instruction_that_the_oracle_knows():
    found = {code for seed in SEEDS for code in opcodes(generate(seed).steps)}
    assert sorted(found) == sorted(MEANINGS)


def failing(monkeypatch, break_it):
    """The first failure that a mistake of trnsim causes, and its kernel."""
    break_it(monkeypatch)
    for seed in range(400):
        kernel = generate(seed)
        if "while_loop" in kernel.source():  # with the mistake it might never end
            continue
        failure, _ = check(kernel)
        if failure is not None:
            return kernel, failure
    raise AssertionError("the mistake was not seen")


def round_down(monkeypatch):
    def truncated(x):
        return (np.ascontiguousarray(x).view(np.uint32) >> 16 << 16).view(np.float32)

    genuine = rounding._round_float
    monkeypatch.setattr(
        rounding,
        "_round_float",
        lambda x, d: genuine(truncated(rounding.to_float32(x)) if d.name == "bfloat16" else x, d),
    )


def swap_operands(monkeypatch):
    genuine = elementwise.apply
    monkeypatch.setattr(elementwise, "apply", lambda op, x, y, **more: genuine(op, y, x, **more))


def forget_one_element(monkeypatch):
    row = ALU["add"]
    forgetful = replace(row, reduce=lambda x, axis: row.reduce(x[..., :-1], axis=axis))
    monkeypatch.setitem(ALU, "add", forgetful)


def clear_a_bit(monkeypatch):
    genuine = xorwow.RandomState.draw
    monkeypatch.setattr(
        xorwow.RandomState, "draw", lambda *lanes: genuine(*lanes) & np.uint32(0xFFFFFFFE)
    )


def halve_the_scales(monkeypatch):
    genuine = matmul_mx.mx_dequantize
    monkeypatch.setattr(matmul_mx, "mx_dequantize", lambda x, scale: genuine(x, scale) / 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "break_it",
    [
        round_down,
        swap_operands,
        forget_one_element,
        clear_a_bit,
        halve_the_scales,
    ],
)
def test_a_mistake_of_values_is_seen_and_made_small(monkeypatch, break_it):
    kernel, failure = failing(monkeypatch, break_it)
    small = shrink(kernel, failure)
    found, _ = check(small)
    assert found.kind == failure.kind == "values"
    assert len(small.steps) <= len(kernel.steps)
    assert len(small.outputs) == 1


def doubling():
    """A kernel that adds a tile to itself."""
    tile = View("t")
    steps = (
        Alloc("t", (2, 3), "float32"),
        Step("dma_copy", {"dst": tile, "src": View("x")}),
        Step("tensor_tensor", {"dst": tile, "data1": tile, "data2": tile, "op": op("add")}),
    )
    inputs = {"x": (np.arange(6, dtype=np.float32).reshape(2, 3), "float32")}
    return Kernel(1, "trn2", 1, inputs, steps, (("t", (2, 3), "float32", "sbuf"),))


def test_what_is_exact_has_one_legal_value():
    (interval,) = expected(doubling())
    np.testing.assert_array_equal(interval.low, 2.0 * np.arange(6).reshape(2, 3))
    assert interval.is_point


@pytest.mark.slow
def test_a_script_runs_by_itself(tmp_path):
    kernel = doubling()
    failure, _ = check(kernel)
    assert failure is None
    path = tmp_path / "kernel.py"
    path.write_text(script(kernel, check_refusal(kernel, must_fail=True)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "t differs at no element\n"
