from trnsim.tools.monitor.metrics import METRICS, gauge, join_gauges


def test_gauges_of_one_name_and_labels_are_one():
    found = join_gauges(
        [
            gauge("neuron_runtime_memory_used_bytes", {"a": "1", "b": "2"}, 3),
            gauge("neuron_runtime_memory_used_bytes", {"b": "2", "a": "1"}, 4),
            gauge("neuron_runtime_memory_used_bytes", {"a": "1", "b": "3"}, 5),
            gauge("neuroncore_utilization_ratio", {"a": "1"}, 0.25),
            gauge("neuroncore_utilization_ratio", {"a": "1"}, 0.5),
        ]
    )
    assert [(one.metric.name, one.value) for one in found] == [
        ("neuron_runtime_memory_used_bytes", 7),
        ("neuron_runtime_memory_used_bytes", 5),
        ("neuroncore_utilization_ratio", 0.5),
    ]


def test_names_are_those_of_their_keys_and_none_has_a_suffix_that_is_added_later():
    for name, one in METRICS.items():
        assert name == one.name
        assert not name.endswith(("_total", "_info", "_created"))
