import re

import pytest
from layer_sizes import LLAMA, layer

from trnsim.errors import BadInput
from trnsim.estimate.curve import signature
from trnsim.estimate.matching import check, check_used
from trnsim.estimate.measured import read
from trnsim.place.machine import machine
from trnsim.workload.operators import WHOLE, Pass, Phase, Split

TRN1 = machine("trn1")
HEAD = "phase,batch,tokens,past,time_us,backward_us,layer\n"
DECODE = (Phase.DECODE, Phase.PREFILL)


def sizes(split):
    given = Pass(Phase.DECODE, 1, 1, 1023)
    return signature(layer(LLAMA, given, split), given)


def checked(tmp_path, line, splits=(WHOLE,), phases=DECODE):
    file = tmp_path / "mine.csv"
    file.write_text(HEAD + line, encoding="utf-8")
    check(read(file), TRN1, phases, [(LLAMA, split) for split in splits])


def test_a_row_may_name_its_sizes_or_leave_no_choice(tmp_path):
    checked(tmp_path, "decode,1,1,1023,2000,,\n")
    checked(tmp_path, f'decode,1,1,1023,2000,,"{sizes(Split(8))}"\n', (WHOLE, Split(8), Split(32)))


@pytest.mark.parametrize(
    ("line", "splits", "message"),
    [
        (
            'decode,1,1,1023,90,,"query 1 x 1"\n',
            (WHOLE,),
            "mine.csv:2: layer is 'query 1 x 1': no layer of llama; legal: query 4096 x 4096",
        ),
        (
            "decode,1,1,1023,2000,,\n",
            (WHOLE, Split(8)),
            "mine.csv:2: layer is missing: this plan has 2 kinds of layer; legal: query 4096",
        ),
        (
            "decode,1,1,1023,0.002,,\n",
            (WHOLE,),
            "mine.csv:2: time_us is '0.002'; legal: from 991 us, which trainium1's published",
        ),
        (
            "train,1,4096,,90000,120000,\n",
            (WHOLE,),
            "mine.csv has rows of train; this plan has decode or prefill alone",
        ),
    ],
)
def test_a_table_of_something_else_is_refused(tmp_path, line, splits, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        checked(tmp_path, line, splits)


def test_gradients_are_two_products_each(tmp_path):
    train = (Phase.TRAIN,)
    checked(tmp_path, "train,1,4096,,30000,60000,\n", phases=train)
    with pytest.raises(
        BadInput, match=r"mine.csv:2: backward_us is '12000'; legal: from 20,255 us"
    ):
        checked(tmp_path, "train,1,4096,,30000,12000,\n", phases=train)


def test_a_table_of_which_nothing_was_met_is_refused(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text(HEAD + "decode,4,1,1023,2000,,\n", encoding="utf-8")
    check_used(read(file), {"decode": f"few (head); measured: {file} (layer)"}, "")
    with pytest.raises(BadInput) as caught:
        check_used(read(file), {"decode": "few constants"}, "decode of 1 x 1 + 9 tokens")
    assert "is met: this plan asks for decode of 1 x 1 + 9 tokens; the file has " in str(
        caught.value
    )
    assert "decode of 4 x 1 + 1023 tokens\n  fix: times lie between rows" in str(caught.value)
