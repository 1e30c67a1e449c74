"""The catalogue: units, provenance, errors, and agreement of rows that state one thing twice."""

import pytest

from trnsim.arch.catalogue import catalogue, parse, read_rows
from trnsim.errors import BadInput
from trnsim.facts import Evidence, Rate


def test_values_are_facts_in_si_units():
    chip = catalogue().chips["trainium2"]
    assert isinstance(chip.memory_bytes, Rate)
    assert chip.memory_bytes == 96 * 2**30
    assert chip.memory_bytes_per_s == 2.9e12
    assert chip.peak_flop_per_s["bf16"] == 667e12
    assert catalogue().instances["trn2.48xlarge"].efa_bytes_per_s == 400e9


def test_gpu_memory_is_decimal_and_neuron_memory_binary():
    rows = catalogue()
    assert rows.instances["p5en.48xlarge"].memory_bytes == 1128e9
    assert rows.instances["trn1.32xlarge"].memory_bytes == 512 * 2**30


@pytest.mark.parametrize(
    ("source", "kind"),
    [("derived", Evidence.DERIVED), ("nv-mem", Evidence.ASSUMED), ("semi", Evidence.ASSUMED)],
)
def test_a_weak_source_is_never_called_documented(source, kind):
    rows = read_rows()
    rows["chips"]["trainium2"]["memory"]["capacity"]["source"] = [source]
    assert parse(rows).chips["trainium2"].memory_bytes.provenance.kind is kind


def test_every_source_key_is_described_and_every_value_has_one():
    rows = read_rows()
    leaves = []

    def walk(value):
        if isinstance(value, dict):
            if "value" in value or "usd_per_hour" in value:
                leaves.append(value)
            for child in value.values():
                walk(child)
        elif isinstance(value, list):
            for child in value:
                walk(child)

    walk({key: value for key, value in rows.items() if key != "sources"})
    assert len(leaves) > 200
    assert all(leaf["source"] for leaf in leaves)
    assert all(key in rows["sources"] for leaf in leaves for key in leaf["source"])


def test_third_party_copies_say_so():
    prices = [p for p in catalogue().prices if p.instance == "trn2.48xlarge" and p.usd_per_hour]
    assert any("third-party copy" in price.source for price in prices)


def test_instance_memory_is_chips_times_chip_memory():
    rows = catalogue()
    for instance in rows.instances.values():
        if instance.accelerator in rows.chips:
            chip = rows.chips[instance.accelerator]
            assert instance.memory_bytes == instance.count * chip.memory_bytes, instance.name


def test_announced_multiples_agree_with_the_derived_row():
    rows = catalogue()
    announced = rows.announced["trainium4"]
    base = rows.chips[announced.compared_chip]
    fp4 = announced.multiples["fp4"] * base.peak_flop_per_s["mxfp4"]
    assert fp4 == announced.derived["fp4"]
    assert announced.derived["fp4"].provenance.kind is Evidence.DERIVED


def test_no_public_price_is_a_row_without_a_figure():
    trn3 = [p for p in catalogue().prices if p.instance == "Trn3 Gen2 UltraServer"]
    assert trn3
    assert all(price.usd_per_hour is None for price in trn3)


def test_an_unknown_instance_lists_the_legal_ones():
    with pytest.raises(BadInput, match=r"instance 'trn9' is not in the catalogue; legal: inf1\.xl"):
        catalogue().instance("trn9")


def test_an_unknown_accelerator_lists_the_legal_ones():
    with pytest.raises(BadInput, match=r"accelerator 'h900' is not in the catalogue; legal: infer"):
        catalogue().accelerator("h900")


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("trn2.48xlrage", "perhaps 'trn2.48xlarge' or "),
        ("Trn2.48xlarge", "perhaps 'trn2.48xlarge' or "),
        ("zzzz", ""),
    ],
)
def test_an_instance_that_is_not_there_is_refused_with_near_ones(name, near):
    with pytest.raises(BadInput, match=f"instance {name!r} is not in the catalogue") as refused:
        catalogue().instance(name)
    assert refused.value.fix.startswith(near)
    assert bool(refused.value.fix) == bool(near)


@pytest.mark.parametrize("name", [3, None, 1.5, True, b"h100", ["h100"], {}])
@pytest.mark.parametrize("kind", ["accelerator", "instance"])
def test_a_name_that_is_no_text_is_refused_with_the_legal_ones(kind, name):
    with pytest.raises(
        BadInput, match=f"^{kind} .* is not in the catalogue; legal: inf"
    ) as refused:
        getattr(catalogue(), kind)(name)
    assert f"{kind} {name!r} is" in str(refused.value)
