import json

import pytest

from trnsim.errors import BadInput
from trnsim.tools.monitor.config import ALL_GROUPS, RUNTIME_GROUPS, SYSTEM_GROUPS, MetricGroup, read

PAGE = {
    "period": "1s",
    "neuron_runtimes": [
        {"tag_filter": "^train", "metrics": [{"type": "neuroncore_counters"}], "period": "500ms"},
        {"tag_filter": ".*", "metrics": [{"type": "memory_used"}, {"type": "execution_stats"}]},
    ],
    "system_metrics": [{"type": "vcpu_usage"}, {"period": "2m", "type": "neuron_hw_counters"}],
}


def written(tmp_path, value):
    path = tmp_path / "monitor.conf"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_period_is_that_of_the_nearest_object(tmp_path):
    found = read(written(tmp_path, PAGE))
    assert found.programs[0].groups == (MetricGroup("neuroncore_counters", 0.5),)
    assert found.programs[1].groups == (
        MetricGroup("memory_used", 1),
        MetricGroup("execution_stats", 1),
    )
    assert found.system == (MetricGroup("vcpu_usage", 1), MetricGroup("neuron_hw_counters", 120))
    assert (found.shortest_s, found.longest_s) == (0.5, 120)


def test_the_first_filter_that_finds_a_tag_counts(tmp_path):
    found = read(written(tmp_path, PAGE))
    assert found.groups_of("train_1") == found.programs[0].groups
    assert found.groups_of("my_train") == found.programs[1].groups
    only = read(written(tmp_path, {**PAGE, "neuron_runtimes": PAGE["neuron_runtimes"][:1]}))
    assert only.groups_of("4711") == ()


def test_without_a_file_everything_is_measured_every_five_seconds(tmp_path):
    assert [one.name for one in ALL_GROUPS.groups_of("any")] == list(RUNTIME_GROUPS)
    assert [one.name for one in ALL_GROUPS.system] == list(SYSTEM_GROUPS)
    assert ALL_GROUPS.shortest_s == ALL_GROUPS.longest_s == 5
    bare = {"system_metrics": [{"type": "vcpu_usage"}]}
    assert read(written(tmp_path, bare)).longest_s == 5


def system(**fields):
    return {"system_metrics": [{"type": "vcpu_usage"} | fields]}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (system(type="cpu"), r"system_metrics\[0\]\.type is 'cpu'; legal: vcpu_usage, memory_info"),
        (system(type="memory_used"), r"system_metrics\[0\]\.type is 'memory_used'"),
        (system(period="0s"), r"system_metrics\[0\]\.period is '0s'; legal: above 0, up to 1h"),
        (system(period="0.0ms"), "period is '0.0ms'"),
        (system(period="61m"), "period is '61m'"),
        (system(period="-1s"), "period is '-1s'"),
        (system(period=5), "period is 5"),
        (system(period="5"), "period is '5'"),
        (system(period="٣s"), "period is '٣s'"),
        (system(period="1e3s"), "period is '1e3s'"),
        (system(period=f"{'9' * 400}s"), "period is '999"),
        (
            system(periods="5s"),
            r"field 'system_metrics\[0\]\.periods' is not known; legal: type, period",
        ),
        ({"system_metrics": {}}, "system_metrics is a mapping; legal: a list"),
        ({"system_metrics": ["vcpu_usage"]}, "legal: a mapping of fields: type"),
        ({"system_metrics": []}, "no group of metrics is asked for"),
        ({}, "no group of metrics is asked for"),
        ({"system_metrics": [{"type": "vcpu_usage"}] * 2}, r"\[1\]\.type .* each group once"),
        ({"groups": []}, "the field 'groups' is not known"),
        ([], r"the file is \[\]; legal: a mapping"),
        (
            {"neuron_runtimes": [{"tag_filter": "(", "metrics": [{"type": "memory_used"}]}]},
            r"neuron_runtimes\[0\]\.tag_filter is '\('; legal: a regular expression",
        ),
        (
            {"neuron_runtimes": [{"tag_filter": 3, "metrics": [{"type": "memory_used"}]}]},
            r"tag_filter is 3",
        ),
        (
            {"neuron_runtimes": [{"tag_filter": f"a{{{10**20}}}", "metrics": []}]},
            r"tag_filter is 'a{10*}'; legal: a regular expression",
        ),
        ("{", r"monitor\.conf"),
    ],
)
def test_what_is_not_legal_is_named_by_its_place(value, said, tmp_path):
    with pytest.raises(BadInput, match=said):
        read(written(tmp_path, value))
