"""Prometheus's own checker, where it is installed (Debian: prometheus)."""

import shutil
import subprocess

import pytest
import yaml

PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian: prometheus)"
)


def promtool(*arguments, folder):
    return subprocess.run(
        [PROMTOOL, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def check_promql(expressions, folder):
    """Whether promtool reads each of them."""
    records = [{"record": f"r{index}", "expr": each} for index, each in enumerate(expressions)]
    rules = {"groups": [{"name": "page", "rules": records}]}
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    ran = promtool("check", "rules", "rules.yml", folder=folder)
    assert ran.returncode == 0, ran.stderr


def run_rules(rule_text, series, expected, folder, minutes=120):
    """The alerts of a rule file at the end of `minutes` of made-up series, a sample a minute.

    `expected` has what promtool is told of each alert that fires, by alert; [] of one that does
    not.
    """
    (folder / "alerts.yml").write_text(rule_text, encoding="utf-8")
    tests = [
        {"eval_time": f"{minutes}m", "alertname": name, "exp_alerts": firing}
        for name, firing in expected.items()
    ]
    case = {
        "rule_files": ["alerts.yml"],
        "evaluation_interval": "1m",
        "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": tests}],
    }
    (folder / "test.yml").write_text(yaml.safe_dump(case))
    return promtool("test", "rules", "test.yml", folder=folder)
