"""The flags of `embed` and `export` that decide how the states of a text become its vector."""

from typing import Any

from absl import flags

flags.disclaim_key_flags()  # --help then lists them under the command that calls `define`


def define() -> tuple[flags.FlagHolder, ...]:
    """Defines the flags.

    A folder of sentence-transformers has its own defaults, so the flags have none.

    Returns:
        tuple of flags.FlagHolder.
    """
    own = "Default: what a run of --task=similarity or a sentence-transformers folder says, else"
    return (
        flags.DEFINE_string("pooling", None, f"cls, mean, max, mean_max, cls_mean or first_last. {own} mean."),
        flags.DEFINE_integer(
            "layer",
            None,
            "The layer that is pooled: 1 is the lowest, -1 the last, 0 the embeddings. Default: -1 for a run of "
            "--task=similarity or a sentence-transformers folder, else -2 (the second to last).",
        ),
        flags.DEFINE_bool("normalize", None, f"Whether vectors get length 1. {own} no."),
        flags.DEFINE_bool("pool_special_tokens", None, f"Whether [CLS] and [SEP] are pooled too. {own} no."),
        flags.DEFINE_integer(
            "max_seq_length",
            None,
            f"Most tokens of a text; longer texts lose their ends. 0: all positions of the model. {own} 0.",
        ),
        flags.DEFINE_integer(
            "vector_size",
            None,
            "Keep only the first so many numbers of a vector, for a model trained with --vector_sizes. 0: all.",
        ),
        flags.DEFINE_string("query_prompt", None, f"Text before each query, such as 'query: '. {own} none."),
        flags.DEFINE_string(
            "document_prompt", None, f"Text before each text that queries look for, such as 'passage: '. {own} none."
        ),
    )


def pooling(holders: tuple[flags.FlagHolder, ...]) -> Any:
    """Makes the Pooling that the flags describe.

    Args:
        holders: tuple of flags.FlagHolder. The result of `define`.

    Returns:
        export.sentence_vectors.Pooling.
    """
    from keras_bert_app.export.sentence_vectors import Pooling

    return Pooling(**{flag.name: flag.value for flag in holders})
