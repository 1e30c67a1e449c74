"""Each rule speaks on a program with its flaw, and is silent on the same work without it."""

import pytest

from trnsim.dtypes import FLOAT32
from trnsim.isa import Engine
from trnsim.profile import advise
from trnsim.profile.analysis.advice import RULES


def small_transfers(kernel, *, flawed):
    for _ in range(32 if flawed else 1):
        kernel.copy(kernel.load(128, 64 if flawed else 64 * 32))


def float32_matmul(kernel, *, flawed):
    options = {"dtype": FLOAT32} if flawed else {}
    weights, moving = kernel.load(128, 128, **options), kernel.load(128, 512, **options)
    for _ in range(16):
        kernel.matmul(weights, moving)


def float32_on_vector(kernel, *, flawed):
    options = {"dtype": FLOAT32} if flawed else {}
    data = kernel.load(128, 4096, **options)
    for _ in range(8):
        data = kernel.copy(data, **options)


def short_matmuls(kernel, *, flawed):
    weights, moving = kernel.load(128, 128), kernel.load(128, 16 if flawed else 512)
    for _ in range(64 if flawed else 2):
        kernel.matmul(weights, moving)


def part_of_array(kernel, *, flawed):
    side = 32 if flawed else 128
    weights, moving = kernel.load(side, side), kernel.load(side, 512)
    for _ in range(32 if flawed else 2):
        kernel.matmul(weights, moving)


def one_engine_alone(kernel, *, flawed):
    psum = kernel.matmul(kernel.load(128, 128), kernel.load(128, 512))
    for turn in range(16):
        is_shared = turn % 2 and not flawed
        kernel.copy(psum, engine=Engine.scalar if is_shared else Engine.vector)


def serial_chain(kernel, *, flawed):
    weights, data = kernel.load(128, 128), kernel.load(128, 128)
    tiles = [data] * (1 if flawed else 8)
    for _ in range(40 if flawed else 5):
        products = [kernel.matmul(weights, tile) for tile in tiles]
        tiles = [kernel.copy(product) for product in products]


PROGRAMS = {
    "small DMA transfers": (small_transfers, "load"),
    "float32 matmul": (float32_matmul, "matmul"),
    "float32 on the Vector Engine": (float32_on_vector, "copy"),
    "short matmuls": (short_matmuls, "matmul"),
    "part of the array": (part_of_array, "matmul"),
    "one engine alone": (one_engine_alone, "copy"),
    "serial chain": (serial_chain, ""),
}


def advice_of(kernel, program, *, flawed):
    program(kernel, flawed=flawed)
    return {advice.rule: advice for advice in advise(kernel.timeline())}


def test_every_rule_has_a_pair_of_programs():
    assert {rule.name for rule in RULES} == set(PROGRAMS)


@pytest.mark.parametrize("rule", PROGRAMS)
def test_a_rule_speaks_of_its_flaw_with_figures_line_and_source(rule, new_kernel):
    program, _ = PROGRAMS[rule]
    kernel = new_kernel()
    found = advice_of(kernel, program, flawed=True)
    assert rule in found, list(found)
    advice = found[rule]
    assert any(c.isdigit() for c in advice.text)
    assert "{" not in advice.text
    assert advice.source
    assert advice.line is not None
    assert 0 < advice.gain_s < kernel.timeline().device_time_s


@pytest.mark.parametrize("rule", PROGRAMS)
def test_a_rule_is_silent_on_the_repaired_program(rule, new_kernel):
    program, _ = PROGRAMS[rule]
    assert rule not in advice_of(new_kernel(), program, flawed=False)


@pytest.mark.parametrize("rule", [rule for rule, (_, method) in PROGRAMS.items() if method])
def test_advice_names_the_line_that_costs_most(rule, new_kernel):
    program, method = PROGRAMS[rule]
    line = advice_of(new_kernel(), program, flawed=True)[rule].line
    code = getattr(new_kernel, method).__code__
    lines = {number for _, _, number in code.co_lines()}
    assert line.file == code.co_filename
    assert line.line in lines


@pytest.mark.parametrize(
    ("rule", "program"),
    [
        ("float32 matmul", float32_matmul),
        ("float32 on the Vector Engine", float32_on_vector),
        ("one engine alone", one_engine_alone),
    ],
)
def test_the_promised_gain_is_about_what_the_repair_brings(rule, program, new_kernel):
    flawed, repaired = new_kernel(), new_kernel()
    promised = advice_of(flawed, program, flawed=True)[rule].gain_s
    program(repaired, flawed=False)
    gained = flawed.timeline().device_time_s - repaired.timeline().device_time_s
    # The repaired program also loads fewer bytes where its tiles are 16 bit.
    assert promised == pytest.approx(gained, rel=0.35)


def test_advice_is_sorted_by_gain(new_kernel):
    kernel = new_kernel()
    float32_matmul(kernel, flawed=True)
    short_matmuls(kernel, flawed=True)
    part_of_array(kernel, flawed=True)
    gains = [advice.gain_s for advice in advise(kernel.timeline())]
    assert len(gains) >= 2
    assert gains == sorted(gains, reverse=True)


def test_an_empty_program_gets_no_advice(kernel):
    assert advise(kernel.timeline()) == []


def test_a_single_small_transfer_cannot_be_merged(kernel):
    kernel.load(128, 8)
    assert "small DMA transfers" not in {advice.rule for advice in advise(kernel.timeline())}


def test_rules_state_a_source_and_a_threshold():
    for rule in RULES:
        assert ".rst" in rule.source, rule.name
        assert rule.threshold > 0, rule.name


@pytest.mark.parametrize(
    ("K", "M", "count", "said"),
    [
        (32, 32, 32, "6.2 % of the Tensor Engine's array (K=32, M=32)"),
        (32, 64, 32, "12 % of the Tensor Engine's array (K=32, M=64)"),
        (128, 63, 32, "49 % of the Tensor Engine's array (K=128, M=63)"),
        (63, 128, 32, ""),  # no matmul adds to the product of another
        (128, 64, 32, ""),  # half of it is enough
        (32, 32, 1, ""),  # nothing to pack it with
    ],
)
def test_a_part_of_the_array_is_named_by_its_share(kernel, K, M, count, said):
    weights, moving = kernel.load(K, M), kernel.load(K, 512)
    for _ in range(count):
        kernel.matmul(weights, moving)
    found = {advice.rule: advice.text for advice in advise(kernel.timeline())}
    assert ("part of the array" in found) is bool(said)
    assert said in found.get("part of the array", "")


@pytest.mark.parametrize("on_scalar", [0, 4, 8, 9])
def test_an_engine_alone_is_named_with_the_shares_of_both(kernel, on_scalar):
    psum = kernel.matmul(kernel.load(128, 128), kernel.load(128, 512))
    for turn in range(16 + on_scalar):
        kernel.copy(psum, engine=Engine.vector if turn < 16 else Engine.scalar)
    timeline = kernel.timeline()
    busy_s = timeline.busy_s()
    vector, scalar = (
        100 * busy_s.get(engine, 0.0) / timeline.device_time_s
        for engine in (Engine.vector, Engine.scalar)
    )
    found = {advice.rule: advice.text for advice in advise(timeline)}
    assert vector > 50
    if scalar > vector / 2:
        assert "one engine alone" not in found
    else:
        assert found["one engine alone"].startswith(
            f"The Vector Engine is busy {vector:.0f} % of the time and the Scalar Engine "
            f"{scalar:.0f} %"
        )


def test_an_engine_that_is_busy_for_less_than_half_is_not_alone(kernel):
    psum = kernel.matmul(kernel.load(128, 128), kernel.load(128, 512))
    for _ in range(16):
        kernel.copy(psum, engine=Engine.vector)
        kernel.load(128, 4096)
    timeline = kernel.timeline()
    assert 0 < timeline.busy_s()[Engine.vector] < 0.5 * timeline.device_time_s
    assert "one engine alone" not in {advice.rule for advice in advise(timeline)}


def test_what_a_queue_issues_all_the_time_is_no_serial_chain(kernel):
    """Independent transfers, faster moved than issued: there is nothing to have in flight."""
    for _ in range(16):
        kernel.load(128, 64)
    timeline = kernel.timeline()
    assert timeline.busy_s()[Engine.dma] < 0.5 * timeline.device_time_s < timeline.queue_issue_s()
    assert "serial chain" not in {advice.rule for advice in advise(timeline)}
