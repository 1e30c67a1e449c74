"""Cost and usage reports in a folder of a test's own."""

import csv as csv_module
import io
import json

HOUR = {
    "line_item_line_item_type": "Usage",
    "line_item_usage_type": "USE1-BoxUsage:p5.48xlarge",
    "line_item_usage_start_date": "2026-10-01T00:00:00Z",
    "line_item_usage_amount": "1",
    "line_item_unblended_cost": "55.04",
    "line_item_currency_code": "USD",
    "line_item_resource_id": "i-1",
    "product_region_code": "us-east-1",
    "resource_tags": {"user_team": "chat"},
}


def text(*lines, header=None):
    """A report with these lines, each with the columns that it changes; None takes one away."""
    rows = [{**HOUR, **line} for line in lines]
    rows = [{k: v for k, v in row.items() if v is not None} for row in rows]
    names = header or list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv_module.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: json.dumps(v) if isinstance(v, dict) else v for k, v in row.items()})
    return out.getvalue()


def bill(folder, *lines, name="october.csv"):
    path = folder / name
    path.write_text(text(*lines), encoding="utf-8")
    return path
