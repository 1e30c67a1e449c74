"""Datadog's base check of OpenMetrics over an exporter; prints what it would submit, as JSON.

python datadog_program.py URL [latest]
"""

import json
import sys

from datadog_checks.base import OpenMetricsBaseCheckV2
from datadog_checks.base.stubs import aggregator

NAMES = (
    *("execution_errors", "execution_errors_created", "execution_latency_seconds"),
    *("execution_status", "execution_status_created"),
    *("hardware_ecc_events", "hardware_ecc_events_created"),
    *("instance_info", "neuron_hardware_info"),
    *("neuron_runtime_memory_used_bytes", "neuron_runtime_vcpu_usage_ratio"),
    *("neuroncore_memory_usage_constants", "neuroncore_memory_usage_model_code"),
    *("neuroncore_memory_usage_model_shared_scratchpad", "neuroncore_memory_usage_tensors"),
    *("neuroncore_memory_usage_runtime_memory", "neuroncore_utilization_ratio"),
    *("process_cpu_seconds", "process_max_fds", "process_open_fds"),
    *("process_resident_memory_bytes", "process_start_time_seconds"),
    *("process_virtual_memory_bytes", "python_gc_collections", "python_gc_objects_collected"),
    *("python_gc_objects_uncollectable", "python_info"),
    *("system_memory_total_bytes", "system_memory_used_bytes", "system_swap_total_bytes"),
    *("system_swap_used_bytes", "system_vcpu_count", "system_vcpu_usage_ratio"),
)
"""What Datadog's integration aws_neuron collects, by the names of its exporter's series."""


class Check(OpenMetricsBaseCheckV2):
    """The integration without its names in Datadog's tree."""

    __NAMESPACE__ = "aws_neuron"


def main(url, *, is_latest):
    instance = {
        "openmetrics_endpoint": url,
        "metrics": list(NAMES),
        "rename_labels": {"version": "python_version"},  # a tag of that name is Datadog's own
        "use_latest_spec": is_latest,
    }
    problem = Check("aws_neuron", {}, [instance]).run()
    if problem:
        raise SystemExit(problem)
    found = [
        {"name": name, "value": one.value, "tags": sorted(one.tags)}
        for name in aggregator.metric_names
        for one in aggregator.metrics(name)
    ]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], is_latest="latest" in sys.argv[2:])
