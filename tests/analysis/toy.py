"""Makes a tiny encoder with random weights, and sentences of its words."""

import functools

import numpy as np

from keras_bert_app.analysis.encoders import Subject
from keras_bert_app.analysis.treebank import Tree
from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.modeling.encoder import BertEncoder
from pipelines.wordpiece.tokenizer import BertTokenizer

WORDS = ("the", "cat", "sat", "it", "its", "old", "dog", ".")


@functools.cache  # making an encoder takes longer than most tests of one
def _encoder():
    config = BertConfig(
        vocab_size=6 + len(WORDS),
        hidden_size=14,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=11,
        max_position_embeddings=19,
    )
    return BertEncoder(config, seed=3, has_pooler=False)


def subject(tmp_path):
    """Makes a Subject with 2 layers and 2 heads of size 7 in each."""
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s"]) + "\n")
    return Subject("toy", _encoder(), BertTokenizer(str(vocabulary), True))


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
    """Returns trees as the text of a CoNLL-U file."""
    return "\n".join("".join(_conllu_line(tree, number) for number in range(1, len(tree) + 1)) for tree in trees)


def _conllu_line(tree, number):
    word, tag, head, relation, misc = (
        values[number - 1] for values in (tree.words, tree.tags, tree.heads, tree.relations, tree.misc)
    )
    return f"{number}\t{word}\t_\t{tag}\t_\t_\t{head + 1}\t{relation}\t_\t{misc}\n"
