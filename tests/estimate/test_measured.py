import re

import pytest
from layer_sizes import LLAMA, layer

from trnsim.errors import BadInput
from trnsim.estimate.curve import signature
from trnsim.estimate.measured import read
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries

GIVEN = Pass(Phase.DECODE, 4, 1, 1023)


def written(tmp_path, text):
    file = tmp_path / "times.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_times_are_those_of_the_file_and_lie_between_its_rows(tmp_path):
    file = written(
        tmp_path, "phase,batch,tokens,past,time_us\ndecode,4,1,511,100\n\ndecode,4,1,2047,400\n"
    )
    found = read(file).of(layer(LLAMA, GIVEN), GIVEN)
    assert found.time_s == pytest.approx(200e-6)
    assert found.source == f"measured: {file}"
    assert read(file).backward(layer(LLAMA, GIVEN), GIVEN) is None
    assert read(file).of(summaries(LLAMA, GIVEN)[0], GIVEN) is None


def test_a_row_can_be_of_one_part_and_of_layers_of_one_size(tmp_path):
    sizes = signature(layer(LLAMA, GIVEN, Split(8)), GIVEN)
    file = written(
        tmp_path,
        "time_us,phase,batch,tokens,past,part,layer\n"
        f'9,decode,4,1,1023,layer,"{sizes}"\n'
        "5,decode,4,1,1023,head,\n",
    )
    found = read(file)
    assert found.of(layer(LLAMA, GIVEN, Split(8)), GIVEN).time_s == pytest.approx(9e-6)
    assert found.of(layer(LLAMA, GIVEN), GIVEN) is None
    assert found.of(summaries(LLAMA, GIVEN)[-1], GIVEN).time_s == pytest.approx(5e-6)


HEAD = "phase,batch,tokens,past,time_us\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: no column 'phase'; columns found: none"),
        (
            "phase,batch,time_us\n",
            "line 1: no column 'tokens'; columns found: phase, batch, time_us",
        ),
        ("phase,batch,tokens,time_us,speed\n", "line 1: column 'speed' is unknown; legal: phase,"),
        ("phase,batch,batch,tokens,time_us\n", "line 1: column 'batch' is twice; legal: phase,"),
        (HEAD, "has no rows of times"),
        (HEAD + "decode,4,1,1023\n", "line 2: 4 cells for 5 columns"),
        (
            HEAD + "decode,4,1,1023,9\ndecode,0,1,1023,9\n",
            "line 3, column 'batch': '0'; legal: whole numbers from 1",
        ),
        (HEAD + "decode,4,1.5,1023,9\n", "column 'tokens': '1.5'; legal: whole numbers from 1"),
        (HEAD + "decode,4,1,-1,9\n", "column 'past': '-1'; legal: whole numbers from 0"),
        (HEAD + "decode,,1,0,9\n", "column 'batch': ''; legal: whole numbers from 1"),
        (
            HEAD + "decode,4,1,0,nan\n",
            "column 'time_us': 'nan'; legal: numbers above 0, in microseconds and",
        ),
        (HEAD + "decode,4,1,0,42us\n", "column 'time_us': '42us'; legal: numbers above 0, in mic"),
        ("phase,batch,tokens,time_ms\n", "no column 'time_us'; columns found: phase, batch, tok"),
        (
            HEAD + "decode,4,1,9,5\nprefill,4,1,9,5\ndecode,4,2,8,6\n",
            "line 4: phase, part, layer, batch and length of line 2",
        ),
        (HEAD + "decode,4,1,0,0\n", "column 'time_us': '0'; legal: numbers above 0"),
        (
            HEAD + "sleep,4,1,0,9\n",
            "column 'phase': 'sleep'; legal: encode, prefill, decode, train",
        ),
        (
            "part," + HEAD + "tail,decode,4,1,0,9\n",
            "column 'part': 'tail'; legal: layer, embedding, head",
        ),
    ],
)
def test_a_bad_file_is_refused_with_line_and_column(tmp_path, text, message):
    file = written(tmp_path, text)
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        read(file)
    assert str(file) in str(caught.value)
