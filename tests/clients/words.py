"""A tokenizer of as many words as the known models read."""

import tokenizers
import transformers

SPECIAL = ["[PAD]", "[BOS]", "[EOS]", "[UNK]"]
WORDS = SPECIAL + [f"w{place}" for place in range(60)]
TEMPLATE = "{% for message in messages %}{{ message['content'] }} {% endfor %}"


def tokenizer():
    """Splits at spaces; knows w0 to w59."""
    model = tokenizers.models.WordLevel(dict(zip(WORDS, range(64), strict=True)), "[UNK]")
    whole = tokenizers.Tokenizer(model)
    whole.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=whole,
        pad_token="[PAD]",
        bos_token="[BOS]",
        eos_token="[EOS]",
        unk_token="[UNK]",
        chat_template=TEMPLATE,
        padding_side="left",
    )
