"""The rows of the benchmark of Multi30k, and which rows differ in one thing only."""

PAIRS = 29_000  # of the training set
CONFIG = {
    "vocab_size": 8000,
    "hidden_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "hidden_act": "relu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 64,
    "initializer_range": 0.06,
    "do_lower_case": False,
}
_RNN = {"encoder_layers": 0, "bilstm_units": 128, "learning_rate": 2e-3}
_WARM = {"learning_rate": 2e-3, "encoder_dropout": CONFIG["hidden_dropout_prob"]}  # the BERT has none
_RANDOM = {**_WARM, "random_init": True}  # the warm start's control: the same model and flags, random weights
_QUARTER = {"max_train_examples": PAIRS // 4}
# KIND -> flags of finetune.
KINDS = {
    "rnn_state": {**_RNN, "decoder": "rnn_state"},
    "rnn_context": {**_RNN, "decoder": "rnn_context"},
    "rnn_feedback": {**_RNN, "decoder": "rnn_feedback"},
    "rnn_context_additive": {**_RNN, "decoder": "rnn_context", "attention": "additive"},
    "rnn_feedback_additive": {**_RNN, "decoder": "rnn_feedback", "attention": "additive"},
    "rnn_feedback_dot": {**_RNN, "decoder": "rnn_feedback", "attention": "dot"},
    "transformer": {},
    "transformer_no_smoothing": {"label_smoothing": 0.0},
    "transformer_quarter": _QUARTER,
    "warm": _WARM,
    "warm_scratch_decoder": {**_WARM, "decoder_init": "scratch"},
    "warm_quarter": {**_WARM, **_QUARTER},
    "random": _RANDOM,
    "random_quarter": {**_RANDOM, **_QUARTER},
}
ROWS = [f"en_de:{kind}" for kind in KINDS]
ROWS += [f"de_en:{kind}" for kind in ("rnn_feedback", "rnn_feedback_additive", "transformer", "warm", "random")]
# KIND -> the kind that differs from it in one flag.
COMPARED = {
    "rnn_context": "rnn_state",
    "rnn_feedback": "rnn_context",
    "rnn_context_additive": "rnn_context",
    "rnn_feedback_additive": "rnn_feedback",
    "rnn_feedback_dot": "rnn_feedback_additive",
    "transformer_no_smoothing": "transformer",
    "warm": "random",
    "warm_quarter": "random_quarter",
    "warm_scratch_decoder": "warm",
}


def reads_bert(row: str) -> bool:
    """Whether a row takes its shape, and perhaps its weights, from the BERT of the captions."""
    return row.partition(":")[2].startswith(("warm", "random"))


def differences(rows: list[str]) -> dict[str, tuple[str, str, int]]:
    """The differences that rows allow: of two rows, and of a beam search and a greedy search with the same weights.

    Args:
        rows: names of rows, SOURCE_TARGET:KIND.

    Returns:
        dict. Name of the difference -> (row, the row that is subtracted, beams of the subtracted one or 0 for its own).
    """
    pairs = [
        (row, f"{row.split(':')[0]}:{COMPARED[row.split(':')[1]]}") for row in rows if row.split(":")[1] in COMPARED
    ]
    found = {f"{row} - {other}": (row, other, 0) for row, other in pairs if other in rows}
    return found | {f"{row}, beam search - greedy": (row, row, 1) for row in rows}
