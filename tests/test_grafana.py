import json

import pytest

from trnsim.grafana import Chart, LabelChoice, expressions, page


def charts(count):
    return [Chart(f"chart {index}", {"a": f"up{{n='{index}'}}"}, "short") for index in range(count)]


@pytest.mark.parametrize("counts", [(), (0,), (1,), (2, 0, 3), (5, 1)])
def test_no_panel_lies_on_another_and_none_leaves_the_page(counts):
    rows = [(f"row {index}", charts(count)) for index, count in enumerate(counts)]
    panels = json.loads(page("A", "a", rows))["panels"]
    places = set()
    for one in panels:
        at = one["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & places
        assert at["x"] + at["w"] <= 24
        places |= cells
    assert [one["id"] for one in panels] == list(range(1, sum(counts) + len(counts) + 1))


def test_panels_stand_below_their_row():
    panels = json.loads(page("A", "a", [("one", charts(3)), ("two", charts(1))]))["panels"]
    assert [(one["title"], one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels] == [
        ("one", 0, 0),
        ("chart 0", 0, 1),
        ("chart 1", 12, 1),
        ("chart 2", 0, 9),
        ("two", 0, 17),
        ("chart 0", 0, 18),
    ]


def test_every_panel_asks_the_source_that_the_reader_chooses():
    found = json.loads(page("A", "a", [("row", charts(2))]))
    assert found["templating"]["list"][0] == {
        "name": "source",
        "type": "datasource",
        "query": "prometheus",
    }
    for one in found["panels"][1:]:
        assert one["datasource"] == one["targets"][0]["datasource"]
        assert one["datasource"]["uid"] == "${source}"


def test_lines_of_a_chart_have_their_names_and_letters():
    chart = Chart("A", {"one": "a", "two": "b"}, "bytes", is_stacked=True)
    panel = json.loads(page("A", "a", [("row", [chart])]))["panels"][1]
    assert [(one["refId"], one["expr"], one["legendFormat"]) for one in panel["targets"]] == [
        ("A", "a", "one"),
        ("B", "b", "two"),
    ]
    assert panel["fieldConfig"]["defaults"]["unit"] == "bytes"
    assert panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"


def test_expressions_have_all_values_of_a_choice():
    choice = LabelChoice("instance", "Instance", "up")
    chart = Chart("A", {"one": 'up{instance=~"$instance"}'}, "short")
    text = page("A", "a", [("row", [chart])], choices=[choice])
    assert expressions(text) == ['up{instance=~".*"}']
    (variable,) = json.loads(text)["templating"]["list"][1:]
    assert variable["query"] == "label_values(up, instance)"
