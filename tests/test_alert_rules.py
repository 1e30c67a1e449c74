"""That promtool accepts such files is tested where alerts are made."""

import yaml

from trnsim.alert_rules import Alert, rule_file

ALERT = Alert("A", "up == 0", 5, "page", "it is {{ down }}", "look", ("instance", "job"))


def test_a_rule_names_its_labels_behind_its_summary_and_begins_no_template_by_itself():
    (group,) = yaml.safe_load(rule_file([("g", [ALERT])]))["groups"]
    assert group["name"] == "g"
    assert group["rules"] == [
        {
            "alert": "A",
            "expr": "up == 0",
            "for": "5m",
            "labels": {"severity": "page"},
            "annotations": {
                "summary": "it is {{`{{`}} down }} "
                "(instance {{ $labels.instance }}, job {{ $labels.job }})",
                "action": "look",
            },
        }
    ]


def test_an_alert_has_its_groups_name_as_a_label_where_one_is_asked_for():
    groups = yaml.safe_load(rule_file([("x", [ALERT]), ("y", [])], label="workload"))["groups"]
    assert groups[0]["rules"][0]["labels"] == {"severity": "page", "workload": "x"}
    assert groups[1] == {"name": "y", "rules": []}
