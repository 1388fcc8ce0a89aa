"""The flags of `embed` and `export` that decide how the states of a text become its vector."""

from typing import Any

from absl import flags

flags.disclaim_key_flags()  # --help then shows them as flags of the command that calls define


def define() -> tuple[flags.FlagHolder, ...]:
    """Defines the flags and returns their holders."""
    return (
        flags.DEFINE_string("pooling", "mean", "cls, mean, max, mean_max, cls_mean or first_last."),
        flags.DEFINE_integer(
            "layer",
            None,
            "The layer that is pooled: 1 is the lowest, -1 the last, 0 the embeddings. By "
            "default -2, the second to last.",
        ),
        flags.DEFINE_bool("normalize", False, "Whether vectors get length 1."),
        flags.DEFINE_bool(
            "pool_special_tokens", False, "Whether [CLS] and [SEP] are pooled too, as sentence-transformers does."
        ),
        flags.DEFINE_integer(
            "max_seq_length", 0, "Texts of more tokens lose their ends; 0 for all positions that the model has."
        ),
    )


def pooling(holders: tuple[flags.FlagHolder, ...]) -> Any:
    """The export.sentence_vectors.Pooling that the flags describe.

    Args:
        holders: the holders that define returned.
    """
    from keras_bert_app.export.sentence_vectors import Pooling

    return Pooling(**{flag.name: flag.value for flag in holders})
