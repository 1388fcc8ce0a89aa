"""PretrainingConfig: the options of a pre-training run. The module does not load TensorFlow."""

import dataclasses
import math

from keras_bert_app.config.bert_config import PARTS, BertConfig
from keras_bert_app.config.training_config import TrainingConfig, field
from keras_bert_app.errors import UserError
from pipelines.choices import FORMATS, LANGUAGE_MODELS, MASKINGS, OBJECTIVES


@dataclasses.dataclass(frozen=True)
class PretrainingConfig(TrainingConfig):
    """The options of a pre-training run.

    Every field is a flag of the pretrain command. Names follow google-research/bert.

    Raises:
        UserError: a value is out of its range. The message names the flag, the value and the range.
    """

    input_files: tuple = field((), "Text files, glob patterns or directories, comma-separated.")
    corpus_dir: tuple = field(
        (), "Output of prepare_corpus, instead of --input_files; several, comma-separated, are mixed."
    )
    sampling_exponent: float = field(
        0.7,
        "With several corpora, the share of a corpus in the examples is proportional to its bytes ** this number.",
        minimum=0.0,
        most=1.0,
    )
    input_format: str = field("auto", "Layout of the text.", choices=FORMATS)
    text_field: str = field("text", "The field of a JSON line that holds the text.")
    strict: bool = field(False, "Stop at invalid UTF-8 instead of repairing and counting it.")
    holdout_fraction: float = field(0.02, "Share of documents kept for evaluation.", minimum=0.0, below=1.0)
    language_model: str = field(
        "masked",
        "What the model learns: to predict masked pieces from both sides (masked, for --architecture=bert), each piece "
        "from the pieces before it (causal, for --architecture=gpt and --config=awd_lstm), or each piece from those "
        "before it and from those after it (bidirectional, for --config=elmo).",
        choices=LANGUAGE_MODELS,
    )
    carry_state: bool = field(
        True,
        "Each row of a batch continues the row of the batch before, and an LSTM goes on from the state after that row. "
        "Otherwise rows are in random order and begin with a zero state.",
    )
    max_seq_length: int = field(128, "Tokens a row, [CLS] and [SEP] included.", minimum=8)
    max_predictions_per_seq: int = field(
        0, "Largest number of masked tokens in a row; 0: max_seq_length x masked_lm_prob.", minimum=0
    )
    masked_lm_prob: float = field(0.15, "Share of tokens that are predicted.", minimum=0.0, below=1.0)
    short_seq_prob: float = field(
        0.1,
        "Share of documents that are cut into shorter rows; with --sentence_objective=none, share of shorter rows.",
        minimum=0.0,
        below=1.0,
    )
    sentence_objective: str = field(
        "nsp",
        "Task over two segments: next sentence (nsp), sentence order (sop, ALBERT), or none (rows of full sentences).",
        choices=OBJECTIVES,
    )
    masking: str = field("piece", "Unit that is masked; segmented: the text between spaces.", choices=MASKINGS)
    lexicon_file: str = field("", "Phrases, one a line, that --masking=lexicon masks as a whole.")
    token_groups: str = field("", "Groups of symbols, such as a tree of codes: in each line a name and its group.")
    given_vectors: str = field("", "File of given vectors of pieces, in the format of GloVe or word2vec.")
    max_ngram: int = field(3, "Most words of a span that --masking=span masks as a whole.", minimum=1)
    mask_token_rate: float = field(0.8, "Share of the predicted tokens that become [MASK].", minimum=0.0, most=1.0)
    random_token_rate: float = field(
        0.1, "Share of the predicted tokens that become a random piece.", minimum=0.0, most=1.0
    )
    dupe_factor: int = field(
        0, "Pairs and masks repeat after this number of epochs. 0: they are always new.", minimum=0
    )
    position_initializer: str = field(
        "normal",
        "Initial values of position embeddings that --init_checkpoint does not give: random as in BERT (normal), or "
        "sines of the position with the same standard deviation (sinusoidal). The run trains both kinds.",
        choices=("normal", "sinusoidal"),
    )
    batch_ramp_steps: int = field(
        0,
        "Number of first steps with smaller batches: they begin with an eighth of --global_batch_size and double three "
        "times.",
        minimum=0,
    )
    batch_ramp_share: float = field(
        0.0,
        "--batch_ramp_steps as a share of the run: of --train_minutes, or else of the steps.",
        minimum=0.0,
        below=1.0,
    )
    length_ramp_steps: int = field(
        0,
        "Number of first steps with shorter rows, also with --train_minutes. Rows begin with a quarter of "
        "--max_seq_length and double twice. Batches of shorter rows have more rows and the same number of tokens.",
        minimum=0,
    )
    length_ramp_share: float = field(
        0.0,
        "--length_ramp_steps as a share of the run: of --train_minutes, or else of the steps.",
        minimum=0.0,
        below=1.0,
    )
    allow_missing: tuple = field(
        (),
        "Parts that --init_checkpoint need not have; they start from scratch.",
        choices=("pooler", "masked_lm", "next_sentence", "language_model"),
    )

    KEY = "pretraining"  # the key of these options in config.json
    CHANGEABLE_ON_RESUME = TrainingConfig.CHANGEABLE_ON_RESUME | {
        "allow_missing",
        "batch_ramp_steps",
        "batch_ramp_share",
        "length_ramp_steps",
        "length_ramp_share",
    }
    FOLLOWS_FROM_OTHERS = TrainingConfig.FOLLOWS_FROM_OTHERS | {"max_predictions_per_seq": 0}
    SHARES = TrainingConfig.SHARES | {
        "batch_ramp_steps": "batch_ramp_share",
        "length_ramp_steps": "length_ramp_share",
    }
    ONLY_WITH = TrainingConfig.ONLY_WITH | {
        "max_ngram": ("masking", ("span",)),
        "carry_state": ("language_model", ("causal", "bidirectional")),
        **dict.fromkeys(
            (
                "max_predictions_per_seq",
                "masked_lm_prob",
                "short_seq_prob",
                "sentence_objective",
                "masking",
                "lexicon_file",
                "mask_token_rate",
                "random_token_rate",
            ),
            ("language_model", ("masked",)),
        ),
    }

    def __post_init__(self):
        super().__post_init__()
        if self.has_batch_ramp and self.global_batch_size % 8:
            raise UserError(
                f"--global_batch_size={self.global_batch_size}: with {self._ramp('batch')} expected a multiple of 8"
            )
        if self.has_length_ramp and (self.max_seq_length % 4 or self.max_seq_length < 32):
            raise UserError(
                f"--max_seq_length={self.max_seq_length}: with {self._ramp('length')} expected a multiple of 4, "
                "32 or more"
            )
        if self.mask_token_rate + self.random_token_rate > 1.0 + 1e-9:
            raise UserError(
                f"--mask_token_rate={self.mask_token_rate} and --random_token_rate={self.random_token_rate}: "
                "expected shares that together are 1 or less"
            )
        if self.token_groups and self.given_vectors:
            raise UserError("--token_groups and --given_vectors were both given; give one of them")
        if self.init_checkpoint and (self.token_groups or self.given_vectors):
            name = "token_groups" if self.token_groups else "given_vectors"
            raise UserError(
                f"--{name}={getattr(self, name)}: is for a model from scratch, and --init_checkpoint keeps the vectors "
                f"that its model has; leave out --{name}"
            )
        if (self.masking == "lexicon") != bool(self.lexicon_file):
            raise UserError(
                "--masking=lexicon needs --lexicon_file, a file of one phrase a line"
                if not self.lexicon_file
                else f"--lexicon_file is for --masking=lexicon; got --masking={self.masking}"
            )

    def resolved(self) -> "PretrainingConfig":
        """Returns a copy with the values that follow from other options."""
        changes = {}
        if self.max_predictions_per_seq == self.FOLLOWS_FROM_OTHERS["max_predictions_per_seq"]:
            # The number is rounded up, so that a full row has a slot for every token to predict.
            changes["max_predictions_per_seq"] = max(1, math.ceil(self.max_seq_length * self.masked_lm_prob))
        if self.language_model != "masked":
            changes["sentence_objective"] = "none"
        changes["num_warmup_steps"] = self.resolved_warmup_steps(self.num_train_steps)
        return dataclasses.replace(self, **changes)

    @property
    def has_batch_ramp(self) -> bool:
        """Whether the first batches have fewer rows than the others."""
        return bool(self.batch_ramp_steps or self.batch_ramp_share)

    @property
    def has_length_ramp(self) -> bool:
        """Whether the first batches have shorter rows than the others."""
        return bool(self.length_ramp_steps or self.length_ramp_share)

    def _ramp(self, kind):
        """The name of the flag that sets a ramp."""
        return f"--{kind}_ramp_share" if getattr(self, f"{kind}_ramp_share") else f"--{kind}_ramp_steps"

    def trained_parts(self) -> tuple[str, ...]:
        """The parts of the model, all of which this run trains.

        Without sentence pairs, no loss trains a pooler, so that the model has none.
        """
        if self.language_model != "masked":
            return ("encoder", "language_model")
        return ("encoder", "masked_lm") if self.sentence_objective == "none" else PARTS

    def carries_state(self, model_config: BertConfig) -> bool:
        """Whether the run carries states of LSTMs from batch to batch.

        Args:
            model_config: BertConfig of the model.
        """
        return self.carry_state and model_config.architecture == "lstm_lm"

    def parts_not_needed(self) -> tuple[str, ...]:
        """The parts that --init_checkpoint may lack.

        They are the parts of --allow_missing and the parts that this run does not train.
        """
        return (*self.allow_missing, *(("pooler", "next_sentence") if self.sentence_objective == "none" else ()))

    def checked_against(self, model_config: BertConfig) -> "PretrainingConfig":
        super().checked_against(model_config)
        fitting, architecture = model_config.language_model, model_config.architecture
        if self.language_model != fitting:
            others = {"causal": "gpt", "masked": "bert"} if architecture in ("bert", "gpt") else {}
            other = others.get(self.language_model)
            raise UserError(
                f"--language_model={self.language_model}: does not fit a model of architecture {architecture}"
                f"{' with two directions' * (fitting == 'bidirectional')}; give --language_model={fitting}"
                + (f", or --architecture={other}" if other else ", or another --config")
            )
        if self.carries_state(model_config) and len(self.corpus_dir) > 1:
            raise UserError(
                f"--corpus_dir={','.join(self.corpus_dir)}: rows of several corpora are mixed, so no row continues "
                "another one; add --nocarry_state, or give one corpus"
            )
        if self.max_predictions_per_seq > self.max_seq_length:
            raise UserError(
                f"--max_predictions_per_seq={self.max_predictions_per_seq} is above "
                f"--max_seq_length={self.max_seq_length}; lower it"
            )
        if self.sentence_objective != "none" and model_config.type_vocab_size < 2:
            raise UserError(
                f"--sentence_objective={self.sentence_objective}: has two segments, but the model's type_vocab_size is "
                f"{model_config.type_vocab_size}; give --sentence_objective=none, or a model with type_vocab_size 2"
            )
        return self


# The options that decide the training examples. Other options concern the preparation of the text or the training.
_DATA_NAMES = frozenset(
    (
        "corpus_dir",
        "sampling_exponent",
        "max_seq_length",
        "max_predictions_per_seq",
        "masked_lm_prob",
        "short_seq_prob",
        "sentence_objective",
        "masking",
        "lexicon_file",
        "max_ngram",
        "mask_token_rate",
        "random_token_rate",
        "dupe_factor",
        "global_batch_size",
        "batch_ramp_steps",
        "length_ramp_steps",
        "seed",
    )
)
DATA_FIELDS = tuple(entry for entry in dataclasses.fields(PretrainingConfig) if entry.name in _DATA_NAMES)
