"""Every figure of the demo changes when the input that it is computed from changes."""

import re
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from trnsim import nki
from trnsim.arch.catalogue import catalogue
from trnsim.demo import examples, kernel_section
from trnsim.demo.claims_section import claims_blocks
from trnsim.demo.cost_section import cost_blocks
from trnsim.demo.kernel_section import show_kernel
from trnsim.demo.mistake_section import mistake_blocks
from trnsim.demo.training_section import training_blocks

DAY = date(2026, 11, 21)


def words(blocks):
    """The notes of a section."""
    return [block.words for block in blocks]


def claims_lines(*given):
    return words(claims_blocks(*given))


def mistake_lines(**options):
    return words(mistake_blocks(**options))


def training_lines(**options):
    return words(training_blocks(**options))


def cost_lines(**options):
    """The heading, the names of columns, and a row a platform with its price."""
    title, table = cost_blocks(**options)
    rows = [" ".join([*row, *table.row_notes[at]]) for at, row in enumerate(table.rows)]
    return [title.words, " ".join(column.name for column in table.columns), *rows]


@pytest.fixture(scope="module")
def shown():
    return show_kernel(sequence=512, width=64)


def test_the_kernel_lines_name_size_error_time_interval_bottleneck_and_advice(shown):
    first, second, third, fourth = words(shown.blocks())
    assert re.match(r"1 Kernel    flash attention 512x64 bf16 .*float64 \d\.\de-\d\d$", first)
    assert re.search(r"^\d+\.\d us \[\d+\.\d to \d+\.\d\], bound by ", second)
    assert re.search(r"try: .*attention\.py:\d+$", second)
    assert third.startswith("assumes launch ")
    assert re.search(
        r"off in the median; .* \d+ % in the median, \d+ % at P90 \(docs/generated/acc.*\)$", fourth
    )


def test_the_error_is_that_of_bfloat16(shown):
    assert 0 < shown.largest_error < 1e-2


def test_other_inputs_give_another_error(shown):
    assert show_kernel(sequence=512, width=64, seed=1).largest_error != shown.largest_error


def test_a_longer_sequence_takes_longer(shown):
    longer = show_kernel(sequence=1024, width=64)
    assert longer.run.total_time_s > shown.run.total_time_s
    assert longer.run.timeline.interval().p10 > shown.run.timeline.interval().p10


def test_another_chip_takes_another_time(shown):
    other = show_kernel(sequence=512, width=64, target="trn1")
    assert other.run.total_time_s != shown.run.total_time_s


def test_the_bottleneck_is_the_summarys(shown):
    assert f"bound by {shown.run.summary.bound_by}" in words(shown.blocks())[1]


def test_without_advice_the_line_ends_with_the_bottleneck(shown):
    silent = replace(shown, advice=None)
    assert words(silent.blocks())[1].endswith(f"bound by {shown.run.summary.bound_by}")


def test_the_mistake_names_its_line_what_was_given_what_is_legal_and_the_source():
    (line,) = mistake_lines()
    text = examples.path("mistake.py").read_text()
    at = int(re.search(r"mistake\.py:(\d+)", line)[1])
    assert "nc_matmul" in text.splitlines()[at - 1]
    assert "stationary bfloat16 with moving float32; legal: " in line
    assert line.endswith("(nki.isa.nc_matmul, Data types)")


def test_a_kernel_without_a_mistake_is_called_legal():
    @nki.jit
    def legal(a, b):
        del b
        return a

    assert mistake_lines(kernel=legal) == ["2 Mistake   none: the kernel is legal"]


@pytest.mark.slow
def test_other_seeds_and_steps_give_other_losses():
    pytest.importorskip("torch")
    first, again, other, longer = (
        training_lines(seed=seed, steps=steps) for seed, steps in ((0, 4), (0, 4), (1, 4), (0, 8))
    )
    assert first == again
    assert first != other
    assert first != longer
    assert re.match(r"3 PyTorch   loss \d\.\d+ -> \d\.\d+, difference from the CPU \d", first[0])
    assert re.search(r"; 2 compiled graphs take \d+\.?\d* us of a step$", first[0])
    assert training_lines(steps=4, target="trn1") != first


def test_where_torch_is_absent_the_line_says_how_to_enable_it(monkeypatch):
    monkeypatch.setattr("trnsim.demo.training_section.find_spec", lambda _: None)
    assert training_lines() == [
        "3 PyTorch   torch is not installed; to enable this: pip install 'trnsim[torch]'"
    ]


@pytest.mark.slow
def test_cost_has_a_line_for_each_platform_with_its_price_or_none():
    lines = cost_lines(as_of=DAY)
    table = {line.split()[0]: line for line in lines[2:]}
    assert list(table) == ["trn1", "trn2", "trn3", "p5en"]
    assert "no public price" in table["trn3"]
    assert "unvalidated" in table["trn3"]
    assert "capacity_block" in table["trn2"]
    assert "2026-10-09" in table["trn2"]


@pytest.mark.slow
def test_more_tokens_cost_more_time_and_money():
    def hours(lines):
        return [re.findall(r"[\d.,]+ (?:d|h|min)\b", line)[0] for line in lines[2:]]

    few, many = cost_lines(tokens=1e11, as_of=DAY), cost_lines(as_of=DAY)
    assert "1e+11 tokens" in few[0]
    assert all(a != b for a, b in zip(hours(few), hours(many), strict=True))


@pytest.mark.slow
def test_another_price_row_gives_another_cost():
    rows = catalogue()
    dearer = tuple(
        replace(
            price,
            usd_per_hour=type(price.usd_per_hour)(
                price.usd_per_hour * 2, price.usd_per_hour.provenance
            ),
        )
        if price.instance == "trn2.48xlarge" and price.usd_per_hour is not None
        else price
        for price in rows.prices
    )
    changed = cost_lines(rows=replace(rows, prices=dearer), as_of=DAY)
    plain = cost_lines(as_of=DAY)
    assert changed[3] != plain[3]
    assert changed[2] == plain[2]


def test_another_catalogue_gives_other_verdicts():
    rows = catalogue()
    assert claims_lines() == claims_lines(rows)
    without_prices = replace(rows, prices=())
    assert claims_lines(without_prices) != claims_lines()


def test_the_reference_is_attention_in_float64():
    q = np.zeros((4, 2), np.float32)
    v = np.arange(8, dtype=np.float32).reshape(4, 2)
    # Equal scores weigh every value alike.
    np.testing.assert_allclose(kernel_section.reference(q, q, v), [[3.0, 4.0]] * 4)
