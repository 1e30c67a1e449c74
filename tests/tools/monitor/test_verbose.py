import pytest

from trnsim.tools.monitor.verbose import MonitorMessages


def report(*tags, error=""):
    return {
        "neuron_runtime_data": [
            {
                "pid": number,
                "neuron_runtime_tag": tag,
                "report": {"memory_used": {"period": 1.5, "error": error}},
            }
            for number, tag in enumerate(tags, 7)
        ],
        "system_data": {"vcpu_usage": {"period": 2.0, "error": ""}},
    }


REPORTS = [report("a"), report("a", "b", error="gone"), report()]
ERRORS = ["memory_used of a: gone", "memory_used of b: gone"]
LINES = {
    0: [[], [], []],
    1: [[], ERRORS, []],
    2: [["program a began"], [*ERRORS, "program b began"], ["program a ended", "program b ended"]],
}


@pytest.mark.parametrize("level", LINES)
def test_a_level_says_what_is_its_own_and_the_levels_below(level):
    said = MonitorMessages(level)
    assert [list(said.lines(one)) for one in REPORTS] == LINES[level]


def test_programs_of_one_tag_are_counted_each():
    said = list(MonitorMessages(3).lines(report("job", "job", error="gone")))
    assert said.count("memory_used of job: gone") == 2
    assert said[-1] == "report of 2 programs, 3 groups"


def test_the_highest_levels_name_reports_and_periods():
    assert list(MonitorMessages(3).lines(REPORTS[0])) == [
        "program a began",
        "report of 1 programs, 2 groups",
    ]
    assert list(MonitorMessages(4).lines(REPORTS[0]))[2:] == [
        "memory_used of a: measured over 1.5 s",
        "vcpu_usage: measured over 2.0 s",
    ]
