"""`trnsim nccom-test`: the command lines of AWS's page, the options of ours, and their refusals."""

import json
import os
import re
from pathlib import Path

import pytest
from site_cases import write_site
from typer.main import get_command
from typer.testing import CliRunner

from trnsim.cli import app
from trnsim.cli.nccom_test import app as own_app
from trnsim.cli.nccom_test import single_word_arguments
from trnsim.errors import BadInput
from trnsim.files import read_text

AWS_PAGE = Path("aws-neuron-sdk", "tools", "neuron-sys-tools", "nccom-test.rst")
PAGE = Path(__file__).parents[2] / "docs" / "how-to-nccom-test.md"
FILES = {
    "pairs.json": {"src_target_pairs": [[[0, 1], [1, 0], [2, 2]]]},
    "allgv.json": {"metadata": [{"send_counts": [256], "send_displs": [0]}]},
    "alltoallv.json": {"metadata": [{"send_counts": [512, 1024], "send_displs": [0, 512]}]},
    "streams.json": {
        "streams": [
            {"operation": "all_reduce", "datatype": "bf16", "stepfactor": 2, "minbytes": "1KB",
             "maxbytes": "4KB", "custom_replica_groups": "groups.json", "unique_buff": True},
            {"datatype": "fp32", "ops_per_iter": 2, "minbytes": "1KB", "maxbytes": "1KB"},
        ]
    },
    "groups.json": {"replica_groups": [[[*range(16)], [*range(16, 32)]]]},
}  # fmt: skip


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("TRNSIM_INSTANCE", "trn1.32xlarge")
    monkeypatch.setenv("NEURON_RT_ROOT_COMM_ID", "10.1.4.145:45654")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_text(json.dumps(content))

    def call(line, instance="trn1.32xlarge"):
        monkeypatch.setenv("TRNSIM_INSTANCE", instance)
        result = CliRunner().invoke(app, ["nccom-test", *line.split()], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result

    return call


HEAD = "size(B) count(elems) type time:avg(us) algbw(GB/s) busbw(GB/s)"
SHORT = "--minbytes 1kb --maxbytes 1mb --stepfactor 8 --datatype fp32"
TWO_HOSTS, COUNTS = "--hosts 127.0.0.1 172.32.253.16", "--variable-size-op-metadata"
EIGHTS = ["1024", "8192", "65536", "524288"]


@pytest.mark.parametrize(
    ("line", "head", "sizes"),
    [
        ("-r 2 allr", HEAD, ["33554432"]),
        (f"-r 32 {SHORT} --check allg", HEAD, EIGHTS),
        (
            f"-r 32 {SHORT} --check allg --show-input-output-size",
            HEAD.replace("type", "total_input_size(B) total_output_size(B) type"),
            EIGHTS,
        ),
        (
            f"-r 8 {SHORT} --stats avg p25 p50 p90 p99 --iters 1000 allg",
            HEAD.replace(
                "time:avg(us)",
                "time:avg(us) time:p25(us) time:p50(us) time:p90(us) time:p99(us)",
            ),
            EIGHTS,
        ),
        ("-r 16 allr -b 4 -e 1kb -f 16 -d fp32 --show-algorithm", f"{HEAD} algorithm", None),
        ("-r 8 --custom-src-target-pairs pairs.json permute", HEAD, ["33554432"]),
        (
            "allgv -r 2 -N 1 -b 2048 -e 2048 -d fp16 --variable-size-op-metadata allgv.json",
            HEAD,
            ["2048"],
        ),
        (
            f"-r 2 -N 2 -d fp32 alltoallv -b 1MB -e 1MB {TWO_HOSTS} {COUNTS} alltoallv.json",
            HEAD,
            ["1048576"],
        ),
        (
            "-r 64 -N 2 -b 8 -e 32 -f 2 -n 50 -w 5 -d fp32 allr --hosts 127.0.0.1 10.1.4.138",
            HEAD,
            ["8", "16", "32"],
        ),
        ("-r 64 -N 2 allr --slurm-mode --slurm-setup-script default", HEAD, ["33554432"]),
        ("-n 15 -w 5 -I 10 -W 5 -r 2 redsct -b 8 -e 16 -i 4", HEAD, ["8", "12", "16"]),
    ],
)
def test_the_command_lines_of_awss_page_print_its_table(run, line, head, sizes):
    lines = [row.split() for row in run(line).stdout.splitlines()]
    assert lines[0] == head.split()
    assert sizes is None or [row[0] for row in lines[1:-1]] == sizes
    assert all(len(row) == len(lines[0]) for row in lines[1:-1])
    assert lines[-1][:3] == ["Avg", "bus", "bandwidth:"]


def test_each_stream_has_a_table(run):
    printed = run("allg -r 32 -c --streams-json streams.json --report-to-json-file out.json")
    sizes = re.findall(r"^ +(\d+) +\d+ +(\w+)", printed.stdout, re.MULTILINE)
    assert sizes == [
        *[(size, "bf16") for size in ("1024", "2048", "4096")],
        *[("1024", "fp32")] * 3,
    ]
    assert printed.stdout.count("Avg bus bandwidth") == 2
    assert "2 streams: each has the time that it has alone\n" in printed.stderr
    assert "--unique-buff (no time" in printed.stderr  # of the first stream
    assert "ops_per_iter (each operation" in printed.stderr  # of the second
    assert printed.stderr.count("--check random with --seed") == 2
    results = json.loads(read_text("out.json"))["results"]
    assert [row["stream"] for row in results] == [0, 0, 0, 1, 1, 1]


def test_what_the_estimate_is_worth_is_told_on_stderr(run):
    printed = run("allg -r 32 -b 1KB -e 32KB -f 32 -d fp32")
    told = printed.stderr.splitlines()
    assert told[0] == "emulated by trnsim on 1 x trn1.32xlarge: each is started by the host"
    assert [line[:27] for line in told[1:3]] == [
        "P10 to P90 at 1,024 bytes: ",
        "P10 to P90 at 32,768 bytes:",
    ]
    assert told[3].startswith("of the 15 published rows 14 are within P10 to P90")
    assert len(told) == 4
    shown = run("allg -r 32 -b 1KB -e 1KB --show-interval --debug")
    assert shown.stdout.splitlines()[0].split()[-2:] == ["P10(us)", "P90(us)"]
    assert "P10 to P90 at" not in shown.stderr
    assert "debug: 1,024 bytes: ring on 1 x trn1.32xlarge, started by the host; " in shown.stderr


def test_options_without_an_effect_are_told_and_change_no_time(run):
    plain = run("allr -r 2 -b 1KB -e 1KB")
    told = run(
        "allr -r 2 -b 1KB -e 1KB --unique-buff --shared-output-buff --vcpu-pin-mode "
        "--data-collector-port 1 --data-collector-host h --mpi-log-dir d --non-interactive "
        "--coalesced-cc-size-ratio [1,1] -n 1 -w 0 -I 1 -W 0"
    )
    assert told.stdout == plain.stdout
    (line,) = [line for line in told.stderr.splitlines() if line.startswith("without effect")]
    assert re.findall(r"--[\w-]+", line) == [
        "--mpi-log-dir", "--vcpu-pin-mode", "--data-collector-port", "--data-collector-host",
        "--unique-buff", "--shared-output-buff", "--coalesced-cc-size-ratio",
    ]  # fmt: skip
    assert "1 of 1 operations would count, in 1 runs of a program" in told.stderr
    assert not Path("d").exists()


def test_the_report_has_rows_options_and_estimates(run):
    run("allr -r 64 -N 2 -b 8 -e 8 --report-to-json-file rows.json --show-algorithm -n 5")
    report = json.loads(read_text("rows.json"))
    assert list(report) == ["results", "config", "estimates"]
    (row,) = report["results"]
    assert (row["size(B)"], row["algorithm"]) == (8, "hier")
    (estimate,) = report["estimates"]
    assert (estimate["floor"], estimate["nearest_row"]) == (
        "started by the host",
        "nccom-allr64-2node-8",
    )
    config = report["config"]
    assert (config["iters"], config["nnodes"], config["instance"]) == (5, 2, "trn1.32xlarge")


@pytest.mark.parametrize("is_calibrated", [False, True])
def test_plan_collective_says_the_same(run, monkeypatch, tmp_path, is_calibrated):
    if is_calibrated:
        site = write_site(tmp_path / "site.json", families=("exchanges",))
        monkeypatch.setenv("TRNSIM_SITE", str(site))
    printed = run("redsct -r 32 -b 1MB -e 32MB -f 32 --report-to-json-file rows.json")
    assert ("times: yours, 2026-11-20, 14 rows" in printed.stderr) == is_calibrated
    for row in json.loads(read_text("rows.json"))["results"]:
        asked = f"reduce_scatter --on trn1.32xlarge --ranks 32 --bytes {row['size(B)']} --json"
        planned = CliRunner().invoke(app, ["plan", "collective", *asked.split()])
        rate = json.loads(planned.stdout)["bus_bytes_per_s"]
        assert row["busbw(GB/s)"] * 2**30 == pytest.approx(rate, rel=1e-9)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("-s a b -r 2", "-s a -s b -r 2"),
        ("--stats avg p5", "--stats avg --stats p5"),
        ("--check allg", "--check random allg"),
        ("-c all_ones allg", "-c all_ones allg"),
        ("-c", "-c random"),
        ("--hosts", "--hosts"),
        ("--hosts -r", "--hosts -r"),
        ("--hosts=a b", "--hosts=a b"),
        ("", ""),
    ],
)
def test_options_of_several_words_are_folded(args, expected):
    assert list(single_word_arguments(args.split())) == expected.split()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("allr", "Missing option '--nworkers' / '-r'"),
        ("-r 2", "Missing argument 'OPERATION'"),
        ("allr -r 2 --replica-groups x", "No such option: --replica-groups"),
        ("allr -r x", "Invalid value for '--nworkers' / '-r': 'x'"),
        ("allr -r 2 -n 0", "'0' is below 1; legal: whole numbers from 1 to 10000000"),
        ("allr -r 2 --data-collector-port 65536", "above 65535"),
        ("allr -r 2 --cc-dim 2", "'2' is above 1; legal: whole numbers from 0 to 1"),
        ("allr -r 2 --hosts", "Option '--hosts' requires an argument"),
        ("allr allg -r 2", "Got unexpected extra argument"),
    ],
)
def test_a_wrong_option_ends_with_status_2_and_prints_no_table(run, line, said):
    del run
    result = CliRunner().invoke(app, ["nccom-test", *line.split()])
    assert (result.exit_code, result.stdout) == (2, "")
    assert said in result.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sum -r 2", r"operation 'sum'; legal: all_reduce, all_gather, all_gatherv"),
        ("allr -r 64", r"64 ranks on trn1\.32xlarge"),
        ("allr -r 2 --stats p50 allg", r"--stats allg; legal: avg, and percentiles"),
        ("allr -r 2 --report-to-json-file no/such/x.json", r"no/such"),
        ("allr -r 2 --slurm-job-id 4", r"--slurm-job-id; legal: with --slurm-mode"),
        ("allr -r 4 --streams-json absent.json", r"absent\.json"),
        ("allr -r 4 -e 1KB", r"from --minbytes 32M to --maxbytes 1KB: the first is the larger"),
    ],
)
def test_what_cannot_be_is_refused(run, line, said):
    with pytest.raises(BadInput, match=said):
        run(line)


def options():
    """Names of each option with its default, as the parser has them."""
    command = get_command(own_app)
    for each in command.params:
        if each.param_type_name == "option":
            names = sorted(each.opts, key=len)
            yield ", ".join(names), each.required, each.default
        else:
            yield "OPERATION", True, None


WORDS = {"none": (None, ""), "false": (False,), "required": (None,)}
IN_WORDS = ("a tenth of the way", "of the clock", "the fewest of a node", "current host", "avg")
"""Defaults that are made when they are needed."""


def test_the_page_lists_every_option_with_its_default_and_source():
    row = re.compile(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
    rows = row.findall(read_text(PAGE))
    listed = {names: (default, source) for names, default, _, source in rows}
    parsed = {names: (required, default) for names, required, default in options()}
    assert set(listed) == set(parsed)
    for names, (default, source) in listed.items():
        required, own = parsed[names]
        assert required == (default == "required"), names
        if default in IN_WORDS:
            assert own in (None, ""), names
        else:
            assert own in WORDS.get(default, (own,)), names
            assert default in WORDS or str(own) == default, names
        assert (source == "trnsim's own") == (names == "--show-interval"), names


@pytest.fixture(scope="module")
def aws_page():
    folder = os.environ.get("TRNSIM_UPSTREAM")
    if not folder:
        pytest.skip("$TRNSIM_UPSTREAM does not name a folder with a clone of aws-neuron-sdk")
    return read_text(Path(folder) / AWS_PAGE)


def test_awss_page_has_the_same_options_and_defaults(aws_page):
    row = re.compile(r"\* - ``(-[^`]+)``\s*\n +- `*([^`\n]+)`*.*\n")
    documented = dict(row.findall(aws_page))
    listed = dict(re.findall(r"^\| `(-[^`]+)` \| ([^|]+) \|", read_text(PAGE), re.MULTILINE))
    assert set(listed) - set(documented) == {"--show-interval"}
    assert set(documented) <= set(listed)
    same = {name for name, default in documented.items() if listed[name] == default}
    worded = {name for name in documented if listed[name] in ("none", "required", *IN_WORDS[:-1])}
    assert same | worded == set(documented)


def test_every_example_of_awss_page_prints_the_columns_of_it(aws_page, run):
    """Each command with a table below it, on the files that the page shows."""
    file = re.compile(r"^( +)cat (\w+\.json)\n(\1\{.*?^\1\}$)", re.MULTILINE | re.DOTALL)
    for _, name, text in file.findall(aws_page):
        Path(name).write_text(text)
    example = re.compile(r"^ +(?:\w+=\S+ )?nccom-test (.*)\n +(size\(B\) .*)$", re.MULTILINE)
    examples = example.findall(aws_page)
    assert len(examples) == 14
    for line, head in examples:
        instance = "trn1.32xlarge" if "-N 2" in line or "-r 2 " in line else "trn2.48xlarge"
        columns = run(line, instance).stdout.splitlines()[0].split()
        assert columns == head.replace("time(us)", "time:avg(us)").split(), line
