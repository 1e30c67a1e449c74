"""`trnsim run`: values as numpy's, a report, and errors that say what to do."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from forked import trnsim

from trnsim.cli import run as command
from trnsim.demo.kernel_section import reference

EXAMPLES = Path(__file__).parents[2] / "examples"
ATTENTION = EXAMPLES / "attention.py"
DEFAULT = "the default; NEURON_PLATFORM_TARGET_OVERRIDE names another"


@pytest.mark.slow
def test_a_training_script_is_reported_by_module_and_operator(tmp_path):
    pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")
    script = EXAMPLES / "train_loop.py"
    done = trnsim("run", "-v", script, "--report", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "here" / "step.txt").read_text()
    assert text in done.stdout
    why = "(the default; NEURON_PLATFORM_TARGET_OVERRIDE names another)"
    assert text.splitlines()[0] == f"chip: trn2 {why}"
    assert text.splitlines()[1].startswith("device: a logical NeuronCore of trn2: two of its 8")
    assert {line.split()[0] for line in text.splitlines()[3:7]} == {"trn1", "inf2", "trn2", "trn3"}
    assert "without a time" not in text
    assert (tmp_path / "here" / "step-trn2.trace.json").is_file()
    brief = trnsim("run", script, cwd=tmp_path).stdout.splitlines()[-6:]
    assert brief[0] == "step on trn2 (the default)"
    labels = ["time", "phases", "longest", "chips", "report"]
    assert [line.split()[0] for line in brief[1:]] == labels


@pytest.mark.slow
def test_the_step_of_a_chip_is_the_same_whatever_ran_before_it(tmp_path):
    """Times by chip are those of `--on` one chip, and so is the memory in use."""
    pytest.importorskip("torch", reason="the torch room needs pip install trnsim[torch]")

    def by_chip(on):
        done = trnsim("run", "--json", "--on", on, EXAMPLES / "train_loop.py", cwd=tmp_path)
        return {step["target"]: step for step in json.loads(done.stdout)["steps"]}

    steps = [by_chip(on) for on in ("trn1,trn2", "trn2", "trn3")]
    assert steps[0] == steps[1] == steps[2]
    assert list(steps[0]) == ["trn1", "inf2", "trn2", "trn3"]


@pytest.fixture
def arrays(tmp_path):
    """Files of the user's own: q.npy, k.npy, v.npy in `tmp_path`."""
    rng = np.random.default_rng(7)
    made = {}
    for name in "qkv":
        made[name] = rng.standard_normal((512, 96)).astype(np.float32)
        np.save(tmp_path / f"{name}.npy", made[name])
    return made


def attend(*more, cwd):
    return trnsim("run", ATTENTION, "--input", "q.npy", "k.npy", "v.npy", *more, cwd=cwd)


@pytest.mark.slow_but("trn2")
@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_attention_on_the_users_files_gives_numpys_values(tmp_path, arrays, target):
    done = attend("--on", target, "--output", "out.npy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    expected = reference(*(arrays[name] for name in "qkv"))
    error = np.abs(np.load(tmp_path / "out.npy") - expected).max()
    # Two roundings to bfloat16 (8 bits) on the way to the output.
    assert error <= 2 * 2.0**-8 * np.abs(expected).max()
    assert f"attention on {target}" in done.stdout


def test_the_first_line_names_the_chip_and_why_it_is_that_one(tmp_path, arrays, monkeypatch):
    assert arrays
    several = attend("--on", "trn1,trn2", cwd=tmp_path).stdout
    assert several.startswith("attention on trn1, trn2: ")
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn1")
    done = attend(cwd=tmp_path)
    assert done.stdout.startswith("attention on trn1 (NEURON_PLATFORM_TARGET_OVERRIDE): ")


def test_a_kernel_is_told_in_six_lines_and_in_full(tmp_path, arrays):
    assert arrays
    lines = attend(cwd=tmp_path).stdout.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("attention on trn2 (the default): ")
    assert [line[:12].split() for line in lines[1:]] == [
        ["time"], ["bound", "by"], ["try"], ["output"], ["report"]
    ]  # fmt: skip
    assert re.search(r": -[\d.]+ us at attention\.py:\d+$", lines[3])
    full = attend("-v", cwd=tmp_path).stdout
    assert full.startswith(f"attention on trn2 ({DEFAULT}): ")
    for words in ("rests on", "assumed", "expected error", "if   DMA twice", "attention.json"):
        assert words in full, words


def test_json_stands_alone_whatever_the_program_prints(tmp_path):
    printing = "import os\nprint('from python')\nos.system('echo from a process')\n"
    (tmp_path / "p.py").write_text(ATTENTION.read_text() + printing)
    done = trnsim("run", "--json", "p.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (kernel,) = json.loads(done.stdout)["kernels"]
    assert kernel["outputs"] == [{"shape": [1024, 128], "dtype": "float32"}]
    assert "from python\n" in done.stderr
    assert "from a process\n" in done.stderr


def test_the_report_is_written_and_holds_the_source_lines(tmp_path, arrays):
    assert arrays
    done = attend("--report", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "here" / "attention.html").read_text()
    assert "attention.py" in page
    assert "nc_matmul" in page


@pytest.mark.slow
def test_with_a_report_everything_is_written(tmp_path, arrays):
    assert arrays
    done = attend("--on", "trn1,trn2", "--report", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "here").iterdir()}
    assert names == {
        *("page.html", "figures.json", "table.csv", "attention.html", "attention.json"),
        *(
            f"attention-{target}{suffix}"
            for target in ("trn1", "trn2")
            for suffix in (".perfetto-trace", ".trace.json", "-tables")
        ),
    }
    assert (tmp_path / "here" / "attention-trn2-tables" / "Summary.parquet").is_file()
    assert "  report  here/attention.html; beside it: stored, trace, chrome, tables" in done.stdout
    assert 'href="attention-trn1.trace.json"' not in (tmp_path / "here" / "page.html").read_text()
    full = attend("-v", "--on", "trn1,trn2", "--report", "here", cwd=tmp_path).stdout
    for name in names - {"page.html", "figures.json", "table.csv"}:
        assert f"here/{name}" in full
    page = (tmp_path / "here" / "page.html").read_text()
    assert '<a href="attention.html">here/attention.html</a>' in page


def test_several_targets_stand_side_by_side(tmp_path, arrays):
    assert arrays
    done = attend("--on", "trn1, trn3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in (tmp_path / "trnsim-report").iterdir()} == {
        "attention.html",
        "attention.json",
    }
    assert "attention on trn1, trn3: " in done.stdout
    assert ["trn1", "trn3"] in [line.split() for line in done.stdout.splitlines()]


def test_a_program_runs_with_its_arguments_and_every_kernel_is_reported(tmp_path):
    (tmp_path / "program.py").write_text(
        "import sys\n"
        "import numpy as np\n"
        "import nki\n"
        "import nki.language as nl\n"
        "import nki.isa as nisa\n"
        "@nki.jit\n"
        "def double(a):\n"
        "    tile = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.sbuf)\n"
        "    nisa.dma_copy(dst=tile, src=a)\n"
        "    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)\n"
        "    out = nl.ndarray(a.shape, dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    nisa.dma_copy(dst=out, src=tile)\n"
        "    return out\n"
        "for n in sys.argv[1:]:\n"
        "    print('sum', double(np.ones((int(n), 4), np.float32)).sum())\n"
    )
    done = trnsim("run", "program.py", "8", "16", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "sum 64.0\n" in done.stdout
    assert "sum 128.0\n" in done.stdout
    assert done.stdout.count("double on trn2") == 2


def failure(done):
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.startswith("trnsim: error: ")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_wrong_shape_names_the_kernels_own_assertion_and_its_line(tmp_path):
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", np.zeros((100, 64), np.float32))
    message = failure(attend(cwd=tmp_path))
    assert "S is 100; it must be a multiple of 512" in message
    assert re.search(r"at .*attention\.py:\d+", message)


def test_a_missing_array_is_named_with_the_fix(tmp_path):
    message = failure(trnsim("run", ATTENTION, "--input", "q.npy", "k", "v", cwd=tmp_path))
    assert "cannot read q.npy: No such file or directory" in message
    assert "fix: give a file that numpy.save wrote" in message


@pytest.mark.slow
def test_an_array_of_objects_is_refused(tmp_path):
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    message = failure(trnsim("run", ATTENTION, "--input", "o.npy", cwd=tmp_path))
    assert "o.npy: not an array of numbers" in message


def test_what_is_no_array_is_refused_without_advice_to_load_pickles(tmp_path):
    (tmp_path / "text.npy").write_text("1 2 3\n")
    message = failure(trnsim("run", ATTENTION, "--input", "text.npy", cwd=tmp_path))
    assert "text.npy: not an array of numbers" in message
    assert "fix: give a file that numpy.save wrote" in message
    assert "pickle" not in message


@pytest.mark.slow
def test_an_archive_of_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "several.npz", q=np.ones(3, np.float32))
    message = failure(trnsim("run", ATTENTION, "--input", "several.npz", cwd=tmp_path))
    assert "several.npz: an archive of arrays (.npz)" in message
    assert "fix: give a file that numpy.save wrote" in message


def test_float64_is_refused_by_name(tmp_path):
    for name in "qkv":
        np.save(tmp_path / f"{name}.npy", np.zeros((512, 64)))
    message = failure(attend(cwd=tmp_path))
    assert "argument `q` is float64" in message
    assert "astype('float32')" in message


@pytest.mark.slow
def test_too_few_arrays_show_the_kernels_signature(tmp_path, arrays):
    assert arrays
    message = failure(trnsim("run", ATTENTION, "--input", "q.npy", cwd=tmp_path))
    assert "attention(q, k, v)" in message


def test_an_unknown_target_lists_the_legal_ones(tmp_path):
    message = failure(trnsim("run", ATTENTION, "--on", "trn9", cwd=tmp_path))
    assert "'trn9' is no chip, family or instance type; legal: trn1, inf2, trn2, trn3" in message


def test_a_missing_script_says_what_to_name(tmp_path):
    message = failure(trnsim("run", "nowhere.py", cwd=tmp_path))
    assert "cannot read nowhere.py: No such file" in message


def test_a_script_that_launches_nothing_says_so(tmp_path):
    (tmp_path / "quiet.py").write_text("print('hello')\n")
    message = failure(trnsim("run", "quiet.py", cwd=tmp_path))
    assert "launched no kernel" in message


def test_a_script_with_a_syntax_error_names_the_line(tmp_path, arrays):
    assert arrays
    (tmp_path / "broken.py").write_text("a = 1\nb = = 2\n")
    message = failure(trnsim("run", "broken.py", "--input", "q.npy", cwd=tmp_path))
    assert "at broken.py:2" in message


def test_a_file_of_several_kernels_asks_which(tmp_path, arrays):
    assert arrays
    (tmp_path / "two.py").write_text(
        "import nki\n"
        "@nki.jit\ndef first(a):\n    return a\n"
        "@nki.jit\ndef second(a):\n    return a\n"
    )
    message = failure(trnsim("run", "two.py", "--input", "q.npy", cwd=tmp_path))
    assert "has the kernels: first, second" in message
    chosen = trnsim("run", "two.py", "--kernel", "second", "--input", "q.npy", cwd=tmp_path)
    assert chosen.returncode == 0, chosen.stderr


def test_an_output_that_cannot_be_written_is_named(tmp_path, arrays):
    assert arrays
    message = failure(attend("--output", "no/such/out.npy", cwd=tmp_path))
    assert "cannot write no/such/out.npy: No such file or directory" in message


def test_what_was_spilled_is_told_before_the_time(tmp_path):
    (tmp_path / "large.py").write_text(
        "from trnsim.nki import jit, language as nl, isa as nisa\n"
        "@jit\n"
        "def large(x):\n"
        "    tiles = [nl.full((1, 25_000), value, nl.float32) for value in (1.0, 2.0, 3.0)]\n"
        "    for tile in tiles:\n"
        "        nisa.tensor_tensor(tile, tile, tiles[-1], nl.add)\n"
        "        nisa.dma_copy(x, tile[:, 0:1])\n"
        "    return x\n"
    )
    np.save(tmp_path / "x.npy", np.zeros((1, 1), np.float32))
    done = trnsim("run", "large.py", "--input", "x.npy", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert " warning SBUF of NeuronCore-v3 holds 229376 bytes a partition" in words
    assert "100,000 bytes saved to HBM and 100,000 reloaded" in words
    assert words.index("warning SBUF") < words.index(" time ")


ON_RANKS = """
import nki, nki.collectives as ncc, nki.isa as nisa, nki.language as nl, numpy as np

@nki.jit
def total(x):
    src = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="src")
    dst = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm, name="dst")
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=src, src=x)
    ncc.all_reduce([src], [dst], ncc.ReplicaGroup([list(range(8))]), nl.add)
    nisa.dma_copy(dst=out, src=dst)
    return out

if __name__ == "__main__":
    assert (total(np.ones((4, 4), np.float32)) == 8).all()
"""


@pytest.mark.slow
def test_a_program_and_a_kernel_run_on_ranks(tmp_path):
    (tmp_path / "k.py").write_text(ON_RANKS)
    np.save(tmp_path / "x.npy", np.ones((4, 4), np.float32))
    where = ("--ranks", 8, "--instance", "trn2.48xlarge")
    for more in ((), ("--input", "x.npy", "--output", "out.npy")):
        done = trnsim("run", "k.py", *where, *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "total: 8 ranks of LNC=1 on trn2.48xlarge: " in done.stdout
        assert "  link     HBM of chip 0: " in done.stdout
        page = tmp_path / "trnsim-report" / "total-ranks-0.html"
        assert "rank 7 " in page.read_text()
        figures = json.loads(page.with_suffix(".world.json").read_text())
        assert [one["exposed_s"] > 0 for one in figures["ranks"]] == [True] * 8
        assert "  exposed  " in done.stdout
        assert not page.with_suffix(".perfetto-trace").exists()
    assert (np.load(tmp_path / "out.npy") == 8).all()
    done = trnsim("run", "k.py", *where, "--report", "all", cwd=tmp_path)
    assert (tmp_path / "all" / "total-ranks-0.perfetto-trace").stat().st_size > 1000
    assert "all/total-ranks-0.html; beside it: figures, trace; " in done.stdout
    stored = trnsim("profile", "summary", "all", cwd=tmp_path)
    assert "total on trn2" in stored.stdout, stored.stderr


@pytest.mark.parametrize(("asked", "is_told"), [(4, True), (8, False)])
def test_a_program_that_states_its_own_ranks_is_told_that_the_option_has_no_effect(
    tmp_path, asked, is_told
):
    head, _, _ = ON_RANKS.partition("    assert (total(")
    own = "trnsim.run(total, np.ones((4, 4), np.float32), ranks=8)"
    (tmp_path / "k.py").write_text(f"import trnsim\n{head}    assert len({own}.runs) == 8\n")
    done = trnsim("run", "k.py", "--ranks", asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "total: 8 ranks of LNC=" in done.stdout
    message = f"--ranks {asked} has no effect here: the program states its own ranks"
    assert (message in " ".join(done.stdout.split())) == is_told


@pytest.mark.slow_but("more2---instance without --ranks")
@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--ranks", 3), "3 ranks; legal: 1, 2, 4, 8, 16 and multiples of 32"),
        (("--ranks", 8, "--instance", "trn2.huge"), "trn2.huge"),
        (("--instance", "trn2.48xlarge"), "--instance without --ranks"),
        (("--ranks", 4), "name rank 4-7, of 4 ranks"),
        ((), "or with `trnsim run --ranks N`"),
    ],
)
def test_ranks_that_do_not_fit_are_an_error_in_words(tmp_path, more, message):
    (tmp_path / "k.py").write_text(ON_RANKS)
    done = trnsim("run", "k.py", *more, cwd=tmp_path)
    assert done.returncode != 0
    assert message in done.stderr


@pytest.mark.parametrize("name", ["a.json", "a.JSON", "a.Md"])
def test_the_ending_of_an_answer_file_is_read_in_any_case(name, tmp_path):
    assert command._answer_file(tmp_path / name) == tmp_path / name
    assert command._answer_file(tmp_path / "a.npy") is None
