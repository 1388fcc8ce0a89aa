"""PretrainingConfig: everything that decides a pre-training run besides the model. Loads no TensorFlow."""

import dataclasses
import math

from keras_bert_app.config import nearest
from keras_bert_app.errors import UserError
from pipelines.choices import MASKINGS, OBJECTIVES
from pipelines.readers import FORMATS

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
PRECISIONS = ("float32", "bfloat16")
OPTIMIZERS = ("adamw", "lamb", "adafactor")
SCHEDULES = ("linear", "polynomial", "cosine", "constant", "slanted_triangular", "warmup_stable_decay")

# What may differ from the run's config.json when it is resumed.
CHANGEABLE_ON_RESUME = frozenset((
    "num_train_steps", "train_minutes", "strategy", "iterations_per_loop", "save_checkpoints_steps", "eval_steps", "max_eval_steps",
    "log_steps", "keep_checkpoints", "keep_every_steps", "on_nonfinite", "profile_steps", "allow_missing"))
# Values that stand for one that follows from others.
_FOLLOWS_FROM_OTHERS = {"max_predictions_per_seq": 0, "num_warmup_steps": -1}


def _field(default, help_text, choices=None, minimum=None, below=None, most=None):
    return dataclasses.field(default=default, metadata={
        "help": help_text, "choices": choices, "minimum": minimum, "below": below, "most": most})


@dataclasses.dataclass(frozen=True)
class PretrainingConfig:
    """A pre-training run. Every field is a flag of the pretrain command; names follow google-research/bert.

    Raises:
        UserError: a value out of its range; the message names flag, value and range.
    """

    input_files: tuple = _field((), "Text files, glob patterns or directories, comma-separated.")
    corpus_dir: tuple = _field((), "What prepare_corpus wrote, instead of --input_files; several, comma-separated, are mixed.")
    sampling_exponent: float = _field(0.7, "Of several corpora each gets examples in proportion to bytes ** this.", minimum=0.0,
                                      most=1.0)
    input_format: str = _field("auto", "Layout of the text.", choices=FORMATS)
    text_field: str = _field("text", "The field of a JSON line that holds the text.")
    strict: bool = _field(False, "Stop at invalid UTF-8 instead of repairing and counting it.")
    holdout_fraction: float = _field(0.02, "Share of documents kept for evaluation.", minimum=0.0, below=1.0)
    max_seq_length: int = _field(128, "Tokens a row, [CLS] and [SEP] included.", minimum=8)
    max_predictions_per_seq: int = _field(0, "Most masked tokens a row; 0: max_seq_length x masked_lm_prob.", minimum=0)
    masked_lm_prob: float = _field(0.15, "Share of tokens that are predicted.", minimum=0.0, below=1.0)
    short_seq_prob: float = _field(0.1, "Share of documents cut into shorter rows.", minimum=0.0, below=1.0)
    sentence_objective: str = _field("nsp", "Next sentence, sentence order (ALBERT), or none (full sentences).",
                                     choices=OBJECTIVES)
    masking: str = _field("piece", "What is masked together; segmented: what stands between spaces.", choices=MASKINGS)
    lexicon_file: str = _field("", "Phrases, one a line, that --masking=lexicon masks as a whole.")
    max_ngram: int = _field(3, "Most words of a span that --masking=span masks as a whole.", minimum=1)
    mask_token_rate: float = _field(0.8, "Share of the predicted tokens that become [MASK].", minimum=0.0, most=1.0)
    random_token_rate: float = _field(0.1, "Share of the predicted tokens that become a random piece.", minimum=0.0,
                                      most=1.0)
    dupe_factor: int = _field(0, "Pairs and masks of this many epochs come again and again; 0: always new ones.", minimum=0)
    global_batch_size: int = _field(32, "Rows a step, over all devices and machines.", minimum=1)
    batch_ramp_steps: int = _field(0, "Steps in which the batch doubles three times, from an eighth of --global_batch_size.",
                                   minimum=0)
    learning_rate: float = _field(1e-4, "Peak learning rate.", minimum=0.0)
    learning_rate_schedule: str = _field("linear", "How the rate falls after the warm-up.", choices=SCHEDULES)
    decay_power: float = _field(1.0, "Power of --learning_rate_schedule=polynomial.", minimum=0.0)
    decay_share: float = _field(0.2, "Share of the run in which warmup_stable_decay falls to 0.", minimum=0.0, most=1.0)
    num_warmup_steps: int = _field(-1, "Steps of linear warm-up; -1: a tenth of num_train_steps.", minimum=-1)
    num_train_steps: int = _field(100_000, "Steps in all; the learning rate falls to 0 there.", minimum=1)
    train_minutes: float = _field(0.0, "Train for so long, whatever the steps; warm-up and decay follow the clock. 0: by steps.",
                                  minimum=0.0)
    optimizer: str = _field("adamw", "AdamW as BERT has it, LAMB, or Adafactor, whose rate is a share of what the weights "
                            "measure (1e-2 for AdamW's 1e-4).", choices=OPTIMIZERS)
    bias_correction: bool = _field(False, "Correct the optimizer's means of the first steps; BERT does not.")
    layer_decay: float = _field(1.0, "Factor of the learning rate for each layer further from the heads.", minimum=0.0,
                                most=1.0)
    gradient_accumulation_steps: int = _field(1, "Parts that a replica's rows are taken in, one after the other.", minimum=1)
    on_nonfinite: str = _field("stop", "What to do at a loss or gradient that is not finite: stop, or skip that step.",
                               choices=("stop", "skip"))
    weight_decay_rate: float = _field(0.01, "Decoupled decay of all but biases and LayerNorm.", minimum=0.0)
    adam_beta_1: float = _field(0.9, "Adam's decay of the gradient's mean.", minimum=0.0, below=1.0)
    adam_beta_2: float = _field(0.999, "Adam's decay of the gradient's square.", minimum=0.0, below=1.0)
    adam_epsilon: float = _field(1e-6, "Adam's epsilon.", minimum=1e-12)
    clip_norm: float = _field(1.0, "Global norm that gradients are clipped to, after the sum over devices.", minimum=1e-6)
    precision: str = _field("float32", "Compute type; weights stay float32.", choices=PRECISIONS)
    seed: int = _field(12345, "Of initial weights, document order, pairs, masks and dropout.", minimum=0)
    init_checkpoint: str = _field("", "A model to start the weights from: a work directory, or any layout that convert reads.")
    allow_missing: tuple = _field((), "Parts that --init_checkpoint need not have; they start from scratch.",
                                  choices=("pooler", "masked_lm", "next_sentence"))
    strategy: str = _field("auto", "How to spread the work over devices.", choices=STRATEGIES)
    iterations_per_loop: int = _field(0, "Steps in one call of the device; 0: chosen by device.", minimum=0)
    jit_compile: bool = _field(False, "Compile the per-device step with XLA.")
    save_checkpoints_steps: int = _field(1000, "Steps between checkpoints.", minimum=1)
    keep_checkpoints: int = _field(3, "How many of the newest checkpoints are kept.", minimum=1)
    keep_every_steps: int = _field(0, "Checkpoints of multiples of so many steps are kept for good; 0: none.", minimum=0)
    eval_steps: int = _field(1000, "Steps between evaluations on held-out documents.", minimum=1)
    max_eval_steps: int = _field(0, "Most batches of one evaluation; 0: all.", minimum=0)
    log_steps: int = _field(100, "Steps between lines of metrics.jsonl and TensorBoard.", minimum=1)
    profile_steps: int = _field(0, "Trace so many steps, write WORKDIR/profile and print the ten most costly ops.", minimum=0)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value, limits = getattr(self, field.name), field.metadata
            if field.type is float and type(value) is int:
                value = float(value)
                object.__setattr__(self, field.name, value)
            if field.type is tuple:
                value = (value,) if value and isinstance(value, str) else tuple(value)
                object.__setattr__(self, field.name, value)
                for entry in value if limits["choices"] else ():
                    if entry not in limits["choices"]:
                        raise UserError(f"--{field.name}={entry} is not known: {nearest(entry, limits['choices'])}")
                continue
            if type(value) is not field.type:
                raise UserError(f"{field.name} is {value!r}; expected {field.type.__name__}")
            if limits["choices"] and value not in limits["choices"]:
                raise UserError(f"--{field.name}={value} is not known: {nearest(value, limits['choices'])}")
            if limits["minimum"] is not None and not value >= limits["minimum"]:
                raise UserError(f"--{field.name}={value}: expected {limits['minimum']} or more")
            if limits["below"] is not None and not value < limits["below"]:
                raise UserError(f"--{field.name}={value}: expected less than {limits['below']}")
            if limits["most"] is not None and not value <= limits["most"]:
                raise UserError(f"--{field.name}={value}: expected {limits['most']} or less")
        if self.keep_every_steps % self.save_checkpoints_steps:
            raise UserError(f"--keep_every_steps={self.keep_every_steps}: expected a multiple of "
                            f"--save_checkpoints_steps={self.save_checkpoints_steps}, since others are never saved")
        if self.batch_ramp_steps and self.global_batch_size % 8:
            raise UserError(f"--global_batch_size={self.global_batch_size}: with --batch_ramp_steps expected a multiple of 8")
        if self.bias_correction and self.optimizer == "adafactor":
            raise UserError("--bias_correction is for adamw and lamb; adafactor needs none, so leave it out")
        if self.mask_token_rate + self.random_token_rate > 1.0 + 1e-9:
            raise UserError(f"--mask_token_rate={self.mask_token_rate} and --random_token_rate={self.random_token_rate}: "
                            "expected shares that together are 1 or less")
        if (self.masking == "lexicon") != bool(self.lexicon_file):
            raise UserError("--masking=lexicon needs --lexicon_file, a file of one phrase a line" if not self.lexicon_file
                            else f"--lexicon_file is for --masking=lexicon; got --masking={self.masking}")

    def resolved(self):
        """A copy in which the values that follow from others are worked out."""
        changes = {}
        if self.max_predictions_per_seq == _FOLLOWS_FROM_OTHERS["max_predictions_per_seq"]:
            # The ceiling, so that a full row never has fewer slots than tokens to predict.
            changes["max_predictions_per_seq"] = max(1, math.ceil(self.max_seq_length * self.masked_lm_prob))
        if self.num_warmup_steps == _FOLLOWS_FROM_OTHERS["num_warmup_steps"]:
            changes["num_warmup_steps"] = self.num_train_steps // 10
        return dataclasses.replace(self, **changes)

    def parts_not_needed(self):
        """The parts that --init_checkpoint may lack: those that were named, and those that this run does not train."""
        return (*self.allow_missing, *(("pooler", "next_sentence") if self.sentence_objective == "none" else ()))

    def contradictions(self, wanted):
        """Names of the wanted values (a dict) that differ from this run's and may not change when it is resumed."""
        return [name for name, value in wanted.items() if name not in CHANGEABLE_ON_RESUME
                and value != getattr(self, name) and value != _FOLLOWS_FROM_OTHERS.get(name)]

    def changed_by(self, wanted):
        """A copy with those wanted values (a dict) that may change when a run is resumed."""
        return dataclasses.replace(self, **{
            name: value for name, value in wanted.items() if name in CHANGEABLE_ON_RESUME})

    def checked_against(self, model_config):
        """Raises UserError where run and model do not fit each other; returns self."""
        if self.max_seq_length > model_config.max_position_embeddings:
            raise UserError(f"--max_seq_length={self.max_seq_length} is above the model's max_position_embeddings "
                            f"{model_config.max_position_embeddings}; shorten the rows or raise it in the config")
        if self.max_predictions_per_seq > self.max_seq_length:
            raise UserError(f"--max_predictions_per_seq={self.max_predictions_per_seq} is above "
                            f"--max_seq_length={self.max_seq_length}; lower it")
        return self

    @classmethod
    def from_dict(cls, values):
        """Reads what to_dict wrote."""
        names = [field.name for field in dataclasses.fields(cls)]
        for key in values:
            if key not in names:
                raise UserError(f"run configuration key {key!r} is not known: {nearest(key, names)}")
        return cls(**values)

    def to_dict(self):
        return {**dataclasses.asdict(self), "input_files": list(self.input_files), "corpus_dir": list(self.corpus_dir),
                "allow_missing": list(self.allow_missing)}


# What decides the examples that are trained on; the rest is about text that is still to be prepared, or the training.
_DATA_NAMES = frozenset((
    "corpus_dir", "sampling_exponent", "max_seq_length", "max_predictions_per_seq", "masked_lm_prob", "short_seq_prob",
    "sentence_objective", "masking", "lexicon_file", "max_ngram", "mask_token_rate", "random_token_rate", "dupe_factor",
    "global_batch_size", "batch_ramp_steps", "seed"))
DATA_FIELDS = tuple(field for field in dataclasses.fields(PretrainingConfig) if field.name in _DATA_NAMES)
