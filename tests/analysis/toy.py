"""A tiny encoder with random weights, and a few sentences of its words."""

import numpy as np

from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.treebank import Tree
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling.encoder import BertEncoder
from pipelines.wordpiece.tokenizer import BertTokenizer

WORDS = ("the", "cat", "sat", "it", "its", "old", "dog", ".")


def subject(tmp_path):
    """A Subject of 2 layers with 2 heads of 7."""
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s"]) + "\n")
    config = BertConfig(
        vocab_size=6 + len(WORDS),
        hidden_size=14,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=11,
        max_position_embeddings=19,
    )
    return Subject("toy", BertEncoder(config, seed=3, has_pooler=False), BertTokenizer(str(vocabulary), True))


def tree(words, heads, relations=None, tags=None, misc=None, document=0):
    words = words.split()
    return Tree(
        "toy.conllu",
        tuple(range(1, len(words) + 1)),
        document,
        tuple(words),
        tuple(tags or ["X"] * len(words)),
        np.array(heads),
        tuple(relations or ["root" if head < 0 else "dep" for head in heads]),
        tuple(misc or ["_"] * len(words)),
    )


def conllu(trees):
    """CoNLL-U of trees."""
    return "\n".join(
        "".join(
            f"{at + 1}\t{word}\t_\t{one.tags[at]}\t_\t_\t{one.heads[at] + 1}\t{one.relations[at]}\t_\t{one.misc[at]}\n"
            for at, word in enumerate(one.words)
        )
        for one in trees
    )
