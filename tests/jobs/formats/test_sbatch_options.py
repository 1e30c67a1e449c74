import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.jobs.correction import time_text
from trnsim.jobs.formats.sbatch_options import (
    memory_bytes,
    notes_in,
    options_in,
    program_start,
    resource_count,
    time_limit_s,
    words_in,
)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--nodes=4 # four", ["--nodes=4"]),
        ("--job-name='a b' -N 2", ["--job-name=a b", "-N", "2"]),
        ("--job-name={{ NAME }}-x --x=<your-name>", ["--job-name={{ NAME }}-x", "--x=<your-name>"]),
    ],
)
def test_words_of_a_line(line, words):
    assert words_in(line) == words


def test_a_quote_that_is_not_closed_is_refused():
    with pytest.raises(ValueError, match="quotation"):
        words_in("--job-name='a")


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("-N4 -n 8 -J=a", {"nodes": "4", "ntasks": "8", "job-name": "a"}),
        ("--nodes 4 --exclusive --wait -t 5", {"nodes": "4", "exclusive": True, "wait": True}),
        ("--exclusive=user --gres gpu:8 --gres=gpu:4", {"exclusive": "user", "gres": "gpu:4"}),
        ("--signal --nodes=2", {"signal": True, "nodes": "2"}),
        ("-y 5 word -- -", {"y": "5"}),
        ("", {}),
    ],
)
def test_options_have_long_names(text, options):
    assert options.items() <= options_in(text.split()).items()


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("srun -l -N 2 --mpi pmix --label --export=ALL a -l", "a -l"),
        ("srun -N2 -K --container-mounts x:y --container-mount-home a", "a"),
        ("srun $OPTIONS a", "a"),
        ("srun -l", ""),
        ("srun -N", ""),
        ("srun", ""),
    ],
)
def test_the_program_of_srun_follows_its_options(text, program):
    words = text.split()
    start = program_start(words, [word == "$OPTIONS" for word in words])
    assert " ".join(words[start:]) == program


@pytest.mark.parametrize(
    ("entries", "count"),
    [
        ([""], ("1", "")),
        (["4"], ("4", "")),
        (["4", "2"], ("2", "")),
        (["h100:4"], ("4", "h100")),
        (["h100"], ("1", "h100")),
        (["a:2", "b:1"], ("3", "a:2,b:1")),
        (["a:2", "b", "a:3"], ("4", "a:3,b:1")),
        (["0", "a:2"], ("2", "a")),
        (["a:0"], ("0", "")),
        (["a:$N", "b:1"], ("$N", "a:$N,b:1")),
        (["<count>"], ("<count>", "")),
    ],
)
def test_counts_of_types_are_added_up(entries, count):
    assert resource_count(entries) == count


def test_a_resource_with_and_without_a_type_is_refused():
    with pytest.raises(ValueError, match="with and without a type, which Slurm refuses"):
        resource_count(["2", "a:1"])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300),
        ("5:30", 330),
        ("1:02:03", 3723),
        ("2-3", 183_600),
        ("2-3:04", 183_840),
        ("2-03:04:05", 183_845),
        ("0", None),
        ("UNLIMITED", None),
        ("infinite", None),
    ],
)
def test_time_limits(text, seconds):
    assert time_limit_s(text) == seconds


@pytest.mark.parametrize("text", ["", "1h", "1:2:3:4", "-5", "1.5", "9" * 20])
def test_other_times_are_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        time_limit_s(text)


@given(st.integers(1, 10**9))
def test_a_written_time_is_read_as_it_was(seconds):
    assert time_limit_s(time_text(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1 << 20), ("2M", 2 << 20), ("3g", 3 << 30), ("1T", 1 << 40), ("4KB", 4096), ("0", None)],
)
def test_sizes_of_memory(text, size):
    assert memory_bytes(text) == size


@pytest.mark.parametrize("text", ["", "x", "1.5G", "1GiB", "1P"])
def test_other_sizes_are_refused(text):
    with pytest.raises(ValueError, match=r".*"):
        memory_bytes(text)


def test_notes_of_a_comment():
    assert notes_in("model=a,region=b") == {"model": "a", "region": "b"}
    assert notes_in("model=a,other=b") is None
    assert notes_in("words") is None
    assert notes_in("") is None
