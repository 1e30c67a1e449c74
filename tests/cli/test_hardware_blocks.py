from trnsim.arch.catalogue import catalogue, parse, read_rows
from trnsim.cli import hardware_blocks
from trnsim.cli.hardware_blocks import tera
from trnsim.document.text import section_text
from trnsim.facts import documented


def lines_of(card, *arguments):
    blocks = getattr(hardware_blocks, card)(*arguments)
    return section_text("", blocks).splitlines()


def test_a_rate_is_written_without_powers_of_ten():
    rates = [documented(value * 1e12, "") for value in (0.05, 183.5, 989.5, 15102)]
    assert [tera(rate) for rate in [*rates, None]] == ["0.05", "183.5", "989.5", "15,102", "-"]


def test_every_card_is_at_most_100_columns():
    rows = catalogue()
    cards = [
        lines_of("chip_card", chip, rows) for chip in (*rows.chips.values(), *rows.gpus.values())
    ]
    cards += [lines_of("instance_card", instance, rows) for instance in rows.instances.values()]
    cards += [lines_of("announced_card", chip) for chip in rows.announced.values()]
    cards.append(lines_of("contradictions", rows))
    assert max(len(line) for card in cards for line in card) <= 100


def test_published_peaks_and_those_of_the_clock_stand_apart():
    _, table, *_ = hardware_blocks.chip_card(catalogue().chips["trainium2"], catalogue())
    figures = {name: figure for name, figure, _ in table.rows}
    assert figures["peak bf16"] == "667 TFLOP/s"
    assert figures["array x clock bf16"] == "629.1 TFLOP/s"
    assert figures["other page bf16"] == "632 TFLOP/s"


def test_a_missing_figure_is_said_to_be_missing():
    card = lines_of("chip_card", catalogue().chips["trainium3"], catalogue())
    assert ["power", "not", "published", "-"] in [line.split() for line in card]


def test_a_contradiction_has_both_readings_and_the_one_in_use():
    said = " ".join(" ".join(lines_of("contradictions", catalogue(), ["inf2.48xlarge"])).split())
    assert said == (
        "sources disagree, Inf2 chips: 12 (Neuron docs, EC2 API), or 16 (DLAMI guide); used: 12"
    )
    assert lines_of("contradictions", catalogue(), ["p5.48xlarge"]) == []


def test_an_announced_chip_says_that_it_is_none_to_be_rented():
    card = " ".join(lines_of("announced_card", catalogue().announced["trainium4"]))
    assert card.startswith("trainium4: announced, no spec sheet; multiples of trainium3; never a")
    assert "NVLink Fusion" in card


def test_an_instance_whose_chip_has_no_row_still_has_a_card():
    rows = read_rows()
    del rows["gpus"]["h100"]
    made = parse(rows)
    card = lines_of("instance_card", made.instances["p5.48xlarge"], made)
    assert card[0].startswith("p5.48xlarge: 8 x h100, ")
    assert not any("all chips" in line for line in card)
