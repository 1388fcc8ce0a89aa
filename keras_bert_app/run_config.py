"""PretrainingConfig: everything that decides a pre-training run besides the model. Loads no TensorFlow."""

import dataclasses
import math

from keras_bert_app.config import nearest
from keras_bert_app.errors import UserError
from pipelines.readers import FORMATS

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
PRECISIONS = ("float32", "bfloat16")

# What may differ from the run's config.json when it is resumed.
CHANGEABLE_ON_RESUME = frozenset((
    "num_train_steps", "strategy", "iterations_per_loop", "save_checkpoints_steps", "eval_steps", "max_eval_steps",
    "log_steps", "keep_checkpoints"))
# Values that stand for one that follows from others.
_FOLLOWS_FROM_OTHERS = {"max_predictions_per_seq": 0, "num_warmup_steps": -1}


def _field(default, help_text, choices=None, minimum=None, below=None):
    return dataclasses.field(default=default, metadata={
        "help": help_text, "choices": choices, "minimum": minimum, "below": below})


@dataclasses.dataclass(frozen=True)
class PretrainingConfig:
    """A pre-training run. Every field is a flag of the pretrain command; names follow google-research/bert.

    Raises:
        UserError: a value out of its range; the message names flag, value and range.
    """

    input_files: tuple = _field((), "Text files, glob patterns or directories, comma-separated.")
    corpus_dir: str = _field("", "A directory that pipelines.prepare_corpus wrote, instead of --input_files.")
    input_format: str = _field("auto", "Layout of the text.", choices=FORMATS)
    text_field: str = _field("text", "The field of a JSON line that holds the text.")
    strict: bool = _field(False, "Stop at invalid UTF-8 instead of repairing and counting it.")
    holdout_fraction: float = _field(0.02, "Share of documents kept for evaluation.", minimum=0.0, below=1.0)
    max_seq_length: int = _field(128, "Tokens a row, [CLS] and [SEP] included.", minimum=8)
    max_predictions_per_seq: int = _field(0, "Most masked tokens a row; 0: max_seq_length x masked_lm_prob.", minimum=0)
    masked_lm_prob: float = _field(0.15, "Share of tokens that are predicted.", minimum=0.0, below=1.0)
    short_seq_prob: float = _field(0.1, "Share of documents cut into shorter rows.", minimum=0.0, below=1.0)
    global_batch_size: int = _field(32, "Rows a step, over all devices and machines.", minimum=1)
    learning_rate: float = _field(1e-4, "Peak learning rate.", minimum=0.0)
    num_warmup_steps: int = _field(-1, "Steps of linear warm-up; -1: a tenth of num_train_steps.", minimum=-1)
    num_train_steps: int = _field(100_000, "Steps in all; the learning rate falls to 0 there.", minimum=1)
    weight_decay_rate: float = _field(0.01, "Decoupled decay of all but biases and LayerNorm.", minimum=0.0)
    adam_beta_1: float = _field(0.9, "Adam's decay of the gradient's mean.", minimum=0.0, below=1.0)
    adam_beta_2: float = _field(0.999, "Adam's decay of the gradient's square.", minimum=0.0, below=1.0)
    adam_epsilon: float = _field(1e-6, "Adam's epsilon.", minimum=1e-12)
    clip_norm: float = _field(1.0, "Global norm that gradients are clipped to, after the sum over devices.", minimum=1e-6)
    precision: str = _field("float32", "Compute type; weights stay float32.", choices=PRECISIONS)
    seed: int = _field(12345, "Of initial weights, document order, pairs, masks and dropout.", minimum=0)
    init_checkpoint: str = _field("", "A work directory or checkpoint to start the weights from.")
    strategy: str = _field("auto", "How to spread the work over devices.", choices=STRATEGIES)
    iterations_per_loop: int = _field(0, "Steps in one call of the device; 0: chosen by device.", minimum=0)
    jit_compile: bool = _field(False, "Compile the per-device step with XLA.")
    save_checkpoints_steps: int = _field(1000, "Steps between checkpoints.", minimum=1)
    keep_checkpoints: int = _field(3, "How many of the newest checkpoints are kept.", minimum=1)
    eval_steps: int = _field(1000, "Steps between evaluations on held-out documents.", minimum=1)
    max_eval_steps: int = _field(0, "Most batches of one evaluation; 0: all.", minimum=0)
    log_steps: int = _field(100, "Steps between lines of metrics.jsonl and TensorBoard.", minimum=1)

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value, limits = getattr(self, field.name), field.metadata
            if field.type is float and type(value) is int:
                value = float(value)
                object.__setattr__(self, field.name, value)
            if field.type is tuple:
                object.__setattr__(self, field.name, tuple(value))
                continue
            if type(value) is not field.type:
                raise UserError(f"{field.name} is {value!r}; expected {field.type.__name__}")
            if limits["choices"] and value not in limits["choices"]:
                raise UserError(f"--{field.name}={value} is not known: {nearest(value, limits['choices'])}")
            if limits["minimum"] is not None and not value >= limits["minimum"]:
                raise UserError(f"--{field.name}={value}: expected {limits['minimum']} or more")
            if limits["below"] is not None and not value < limits["below"]:
                raise UserError(f"--{field.name}={value}: expected less than {limits['below']}")

    def resolved(self):
        """A copy in which the values that follow from others are worked out."""
        changes = {}
        if self.max_predictions_per_seq == _FOLLOWS_FROM_OTHERS["max_predictions_per_seq"]:
            # The ceiling, so that a full row never has fewer slots than tokens to predict.
            changes["max_predictions_per_seq"] = max(1, math.ceil(self.max_seq_length * self.masked_lm_prob))
        if self.num_warmup_steps == _FOLLOWS_FROM_OTHERS["num_warmup_steps"]:
            changes["num_warmup_steps"] = self.num_train_steps // 10
        return dataclasses.replace(self, **changes)

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
        return {**dataclasses.asdict(self), "input_files": list(self.input_files)}
