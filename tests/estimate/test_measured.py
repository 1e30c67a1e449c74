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
    found = read(file).forward(layer(LLAMA, GIVEN), GIVEN)
    assert found.time_s == pytest.approx(200e-6)
    assert found.source == f"measured: {file}"
    assert read(file).backward(layer(LLAMA, GIVEN), GIVEN) is None
    assert read(file).forward(summaries(LLAMA, GIVEN)[0], GIVEN) is None


def test_a_row_can_be_of_one_part_and_of_layers_of_one_size(tmp_path):
    sizes = signature(layer(LLAMA, GIVEN, Split(8)), GIVEN)
    file = written(
        tmp_path,
        "time_us,phase,batch,tokens,past,part,layer\n"
        f'9,decode,4,1,1023,layer,"{sizes}"\n'
        "5,decode,4,1,1023,head,\n",
    )
    found = read(file)
    assert found.forward(layer(LLAMA, GIVEN, Split(8)), GIVEN).time_s == pytest.approx(9e-6)
    assert found.forward(layer(LLAMA, GIVEN), GIVEN) is None
    assert found.forward(summaries(LLAMA, GIVEN)[-1], GIVEN).time_s == pytest.approx(5e-6)


HEAD = "phase,batch,tokens,past,time_us\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: the file is empty"),
        (
            "phase,batch,time_us\n",
            ":1: the field 'tokens' is missing; legal: a whole number from 1 on",
        ),
        ("phase,batch,tokens,time_us,speed\n", ":1: the field 'speed' is not known; legal: phase,"),
        ("phase,batch,batch,tokens,time_us\n", ":1: the field 'batch' stands twice"),
        (HEAD, ":1: no rows of times"),
        (HEAD + "decode,4,1,1023\n", ":2: 4 cells, and the first line has 5 fields"),
        (
            HEAD + "decode,4,1,1023,9\ndecode,0,1,1023,9\n",
            ":3: batch is '0'; legal: a whole number from 1 on",
        ),
        (HEAD + "decode,4,1.5,1023,9\n", ":2: tokens is '1.5': no whole number"),
        (HEAD + "decode,4,1,-1,9\n", ":2: past is '-1'; legal: a whole number from 0 on"),
        (HEAD + "decode,,1,0,9\n", ":2: batch is missing; legal: a whole number from 1 on"),
        (
            HEAD + "decode,4,1,0,nan\n",
            ":2: time_us is 'nan'; legal: a number above 0 [microseconds]",
        ),
        (
            HEAD + "decode,4,1,0,42usec\n",
            ":2: time_us is '42usec': has the unit 'usec'; legal: ns, us, ms",
        ),
        (
            "phase,batch,tokens,time_ms\n",
            ":1: the field 'time_ms' is not known; legal: phase, batch, tok",
        ),
        (
            HEAD + "decode,4,1,9,5\nprefill,4,1,9,5\ndecode,4,2,8,6\n",
            ":4: phase, part, layer, batch and length of line 2",
        ),
        (HEAD + "decode,4,1,0,0\n", ":2: time_us is '0'; legal: a number above 0"),
        (
            HEAD + "sleep,4,1,0,9\n",
            ":2: phase is 'sleep'; legal: encode, prefill, decode, train",
        ),
        (
            "part," + HEAD + "tail,decode,4,1,0,9\n",
            ":2: part is 'tail'; legal: layer, embedding, head",
        ),
    ],
)
def test_a_bad_file_is_refused_with_line_and_column(tmp_path, text, message):
    file = written(tmp_path, text)
    with pytest.raises(BadInput, match=re.escape(message)) as caught:
        read(file)
    assert str(file) in str(caught.value)
