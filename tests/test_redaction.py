"""What is left out of a text for strangers, and what stays."""

import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from trnsim import redaction
from trnsim.errors import IllegalInstruction
from trnsim.redaction import KINDS, redacted, redacted_error, vocabulary


@pytest.mark.parametrize(
    "text",
    [
        "a SBUF tensor of shape (256, 64) has 256 partitions; legal on NeuronCore-v3: at most 128",
        "fix: tile dimension 0 in steps of nl.tile_size.pmax",
        "source: aws-neuron-sdk nki/guides/architecture/trainium_inferentia2_arch.rst: SBUF",
        "trnsim.errors.BadInput: nc_matmul",
        "--on=trn2,trn3 plan train llama-3.1-8b --tokens 10B",
        "kind is 'on_demand'",
        "999999 1,024 0-127",
        "FileNotFoundError: [Errno 2] No such file or directory",
        "",
    ],
)
def test_words_of_trnsims_own_source_stay(text):
    assert redacted(text) == redaction.Redaction(text, Counter())


@pytest.mark.parametrize(
    ("text", "shown", "left_out"),
    [
        ("at /home/maxm/kunde.py:20", "at <path>:20", {"paths": 1}),
        (r"C:\Users\maxm\kunde.py", "<path>", {"paths": 1}),
        ("kunde.py:3", "<path>:3", {"paths": 1}),
        ("kunde.safetensors.", "<path>.", {"paths": 1}),
        ("s3://kunde-bucket/weights", "s3:<path>", {"paths": 1}),
        ("~/kunde", "<path>", {"paths": 1}),
        ("geheimnis_v7 has 256 partitions", "<name> has 256 partitions", {"names": 1}),
        ("geheimnis kundenname", "<name>", {"names": 2}),
        ("trnsim.geheimnis", "<name>", {"names": 1}),
        ("ip-10-0-0-5.ec2.internal", "<name>", {"names": 1}),
        ("10.0.0.5", "<name>", {"names": 1}),
        ("is '8,000'", "is '...'", {"quotations": 1}),
        ('of "geheimnis"', "of '...'", {"quotations": 1}),
        ("1000000", "<number>", {"numbers": 1}),
        ("0.5 1e6 -3.25", "<number> <number> -<number>", {"numbers": 3}),
        ("4111-1111-1111-1111 078-05-1120", "<number> <number>", {"numbers": 2}),
        ("123-4567", "<number>", {"numbers": 1}),
        ("12-34-v7", "12-34-<name>", {"names": 1}),
        ("max@kunde.example", "<address>", {"addresses": 1}),
        ("[1, 2, 3, 4, 5, 6, 7, 8]", "[<number>]", {"numbers": 1}),
        ("[0.5 0.25 3 4 5 6 7 8 9]", "[<number>]", {"numbers": 1}),
        ("[1, 2, 3, 4, 5, 6, 7]", "[1, 2, 3, 4, 5, 6, 7]", {}),
        ("Größenwahn", "<name>", {"names": 1}),
    ],
)
def test_what_may_be_its_authors_is_left_out_and_counted(text, shown, left_out):
    answer = redacted(text)
    assert answer.text == shown
    assert answer.left_out == left_out
    assert answer.left_out.keys() <= set(KINDS)


def geheimfunktion(values):
    raise IllegalInstruction(f"kernel geheimkernel has {values}", fix="tile dimension 0")


def told(act, *arguments):
    with pytest.raises(Exception) as raised:  # noqa: PT011  any error has a traceback
        act(*arguments)
    return "".join(traceback.format_exception(raised.value))


def test_a_users_frame_keeps_the_number_of_its_line_alone():
    text = told(geheimfunktion, np.arange(12) / 7)
    answer = redacted_error(text)
    for secret in ("geheim", "raise", "test_redaction", "0.14285714"):
        assert secret in text
        assert secret not in answer.text
    line = geheimfunktion.__code__.co_firstlineno + 1
    assert f'File "<path>", line {line}, in <name>\n' in answer.text
    assert "trnsim.errors.IllegalInstruction: kernel <name> has [<number>]" in answer.text
    assert "fix: tile dimension 0" in answer.text
    assert answer.left_out["source_lines"] == 2
    assert answer.left_out["paths"] == 3  # two frames, and the line of the error


def test_a_frame_of_trnsim_of_a_library_and_of_python_keeps_its_source():
    def broken():
        return np.apply_along_axis(lambda _: vocabulary("too many"), 0, np.ones(3))

    shown = redacted_error(told(broken)).text
    assert 'File "numpy/lib/' in shown
    assert "in apply_along_axis" in shown
    assert "res = " in shown
    assert "too many" not in shown
    assert 'File "python/functools.py"' not in shown
    public = 'File "{}", line 3, in {}\n    return 1\n'
    inner = public.format(redaction.__file__, "mark")
    assert redacted_error(inner).text == public.format("trnsim/redaction.py", "mark").rstrip()
    python = public.format(traceback.__file__, "walk_tb")
    assert redacted_error(python).text.startswith('File "python/traceback.py", line 3, in walk_tb')
    frozen = public.format("<frozen runpy>", "run_path")
    assert redacted_error(frozen).text == frozen.rstrip()


@pytest.mark.parametrize(
    "file",
    [
        "/usr/lib/python3.11/site-packages/kundenpaket/teil.py",
        "/home/maxm/kunden-packages/torch/teil.py",
        f"{Path(redaction.__file__).parent}/../kunde/teil.py",
        f"{Path(traceback.__file__).parent}/../../kunde/teil.py",
        "<frozen kunde.teil>",
    ],
)
def test_a_package_of_the_user_is_no_public_one(file):
    answer = redacted_error(f'  File "{file}", line 3, in kern\n    x = kunde(1)\n    ^^^^\n')
    assert answer.text == '  File "<path>", line 3, in <name>'
    assert answer.left_out == {"paths": 1, "source_lines": 1}


def test_frames_of_an_exception_group_lose_their_lines_too():
    def broken():
        try:
            geheimfunktion(1)
        except IllegalInstruction as error:
            raise ExceptionGroup("geheim", [error, ValueError("geheim")]) from None

    answer = redacted_error(told(broken))
    for secret in ("geheim", "raise", "except", "test_redaction"):
        assert secret not in answer.text
    line = geheimfunktion.__code__.co_firstlineno + 1
    assert f'    |   File "<path>", line {line}, in <name>\n' in answer.text
    assert "    | trnsim.errors.IllegalInstruction: kernel <name> has 1" in answer.text


def test_a_file_that_does_not_parse_has_a_frame_without_a_function():
    answer = redacted_error(
        '  File "/a/kunde.py", line 1\n    kunde = \n          ^\nSyntaxError: x'
    )
    assert answer.text.splitlines()[0] == '  File "<path>", line 1'
    assert "kunde" not in answer.text


def test_the_vocabulary_is_the_source_and_no_data_of_the_machine():
    assert {"nc_matmul", "llama-3.1-8b", "NeuronCore-v3", "partitions"} <= vocabulary()
    assert "geheimnis" not in vocabulary()
