"""Inventories as files: CSV and YAML say the same, and a file that is no inventory is refused."""

import csv as csv_module
import io
import re
from datetime import date

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from inventories import OLD_HEADER, ROW, csv, put

from trnsim.decide.inventory import read
from trnsim.errors import BadInput

LINE = "a,model.json,train,1e9,p5.48xlarge,9"
YAML = "".join(f"{'  ' if n else '- '}{k}: {v}\n" for n, (k, v) in enumerate(ROW.items()))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "inventory.csv:1: the file is empty"),
        (b"\n\n", "inventory.csv:1: the file is empty"),
        (f"{OLD_HEADER}\n{LINE}\n".encode("utf-16"), "inventory.csv:1: the file is UTF-16"),
        (f"{OLD_HEADER}\n{LINE}\xe9\n".encode("latin-1"), "inventory.csv:2: byte 0xe9 is no UTF-8"),
        (OLD_HEADER.replace(",", ";"), "inventory.csv:1: cells are divided by semicolons"),
        (OLD_HEADER.replace(",", "\t"), "inventory.csv:1: cells are divided by tabs"),
        (f"{OLD_HEADER}\n{LINE},000\n", "inventory.csv:2: 7 cells, and the first line has 6"),
        (f"{OLD_HEADER}\na,b\n", "inventory.csv:2: 2 cells, and the first line has 6 fields"),
        (f"{OLD_HEADER},usd\n{LINE},9\n", "inventory.csv:1: the field 'usd' is not known; legal: "),
        (f"{OLD_HEADER},kind\n{LINE},9\n", "inventory.csv:1: the field 'kind' stands twice"),
        ("workload,kind\n", "inventory.csv:1: the field 'model_config' is missing; legal: "),
        (f'{OLD_HEADER}\n"{LINE}\n', "inventory.csv:2: no CSV: "),
        (f"{OLD_HEADER}\n{'a' * 200_000}\n", "inventory.csv:2: no CSV: "),
    ],
)
def test_a_file_that_is_no_inventory_is_refused(tmp_path, content, message):
    path = put(tmp_path, content)
    with pytest.raises(BadInput, match="^" + re.escape(f"{path.parent}/{message}")):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "inventory.yaml:1: the file is empty"),
        ("# nothing\n", "inventory.yaml:1: the file is empty"),
        ("workload: a\n", "inventory.yaml:1: no list; write one row as "),
        (YAML + "  usd: 9\n", "inventory.yaml:7: the field 'usd' is not known; legal: "),
        (YAML + "  kind: train\n", "inventory.yaml:7: kind is given twice, first in line 3"),
        (YAML + "  region: {a: b}\n", "inventory.yaml:7: region is a mapping; legal: the code"),
        (YAML + "  batch: 8,000\n", "inventory.yaml:7: batch is '8,000': no number"),
        (YAML + "  <<: *other\n", "inventory.yaml:7: no YAML: found undefined alias"),
        (YAML + YAML, "inventory.yaml:7: workload is 'chat': the name stands in line 1 too"),
        (YAML + "  sources: ['../a']\n", "inventory.yaml:7: sources is ['../a']: it leads out"),
        (
            "- &a [1, 1, 1, 1]\n" + "".join(
                f"- &a{n} [{', '.join(['*a' + (str(n - 1) if n else '')] * 9)}]\n" for n in range(8)
            ),
            "inventory.yaml:1: more than 50,000 values; anchors that name anchors multiply",
        ),
    ],
)  # fmt: skip
def test_yaml_that_is_no_inventory_is_refused(tmp_path, content, message):
    path = put(tmp_path, content, "inventory.yaml")
    with pytest.raises(BadInput, match="^" + re.escape(f"{path.parent}/{message}")):
        read(path)


def test_yaml_runs_no_code(tmp_path):
    path = put(tmp_path, YAML + "  region: !!python/object/apply:os.getcwd []\n", "a.yaml")
    with pytest.raises(BadInput, match=r"a\.yaml:7: region is \[\]; legal: the code of"):
        read(path)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_kind_of_line_end_is_read(tmp_path, end):
    path = csv(tmp_path, {})
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", end.encode()))
    assert [one.name for one in read(path)] == ["chat"]


def test_a_missing_inventory_is_refused(tmp_path):
    with pytest.raises(BadInput, match=r"^cannot read .*none\.csv: No such file"):
        read(tmp_path / "none.csv")


OPTIONAL = st.fixed_dictionaries(
    {},
    optional={
        "current_count": st.integers(1, 1000).map(str),
        "purchase_kind": st.sampled_from(["spot", "ri_3y", "private"]),
        "region": st.sampled_from(["us-east-1", "eu-west-3"]),
        "as_of": st.dates(date(2020, 1, 1), date(2026, 11, 1)).map(str),
        "output_len": st.integers(1, 100_000).map(str),
        "ttft_s": st.floats(1e-3, 1e3).map("{:e}".format),
        "staff_weeks": st.floats(0, 100).map("{:e}".format),
        "peak_ratio": st.floats(1, 100).map("{:e}".format),
        "other_clouds": st.lists(st.sampled_from(["azure", "gcp", "oracle"]), min_size=1),
        "committed_to_aws": st.sampled_from(["yes", "no"]),
    },
)


@pytest.mark.slow
@given(more=OPTIONAL, name=st.text("ab ,;\"'#-:", min_size=1).filter(str.strip))
def test_csv_and_yaml_say_the_same(tmp_path_factory, more, name):
    folder = tmp_path_factory.mktemp("both")
    row = {**ROW, "workload": name, **more}
    plain = {
        key: ";".join(value) if isinstance(value, list) else value for key, value in row.items()
    }
    table = io.StringIO()
    writer = csv_module.DictWriter(table, list(plain))
    writer.writeheader()
    writer.writerow(plain)
    as_csv = put(folder, table.getvalue())
    as_yaml = put(folder, yaml.safe_dump([row], sort_keys=False), "inventory.yaml")
    (one,), (other,) = read(as_csv), read(as_yaml)
    places = {"line": None}
    assert {**vars(one), **places} == {**vars(other), **places}
