"""Makes a small random encoder with a vocabulary of a few words."""

import functools

from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling.encoder import BertEncoder
from pipelines.wordpiece.tokenizer import BertTokenizer

VOCABULARY = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    ".",
    ",",
    "the",
    "cat",
    "sat",
    "bank",
    "river",
    "money",
    "un",
    "##fl",
    "##app",
    "a",
    "b",
    "c",
    "on",
    "was",
    "by",
]


@functools.cache  # the first call of an encoder takes seconds
def tiny_subject():
    vocabulary = "".join(f"{piece}\n" for piece in VOCABULARY).encode()
    config = BertConfig.from_dict(
        {
            "vocab_size": len(VOCABULARY),
            "hidden_size": 14,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "intermediate_size": 11,
            "max_position_embeddings": 23,
            "type_vocab_size": 2,
            "hidden_act": "gelu",
            "initializer_range": 0.5,
            "do_lower_case": True,
        }
    )
    return Subject("tiny", BertEncoder(config, seed=0, has_pooler=False), BertTokenizer(vocabulary, True))
