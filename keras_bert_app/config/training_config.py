"""TrainingConfig: the options that pre-training and fine-tuning share.

The module does not load TensorFlow.
"""

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.errors import UserError, nearest

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
PRECISIONS = ("auto", "float32", "bfloat16", "float16")
OPTIMIZERS = ("adamw", "lamb", "muon", "adafactor")
COMPILATIONS = ("step", "parts", "none")
_HIDDEN_MATRIX = re.compile(r"layer_\d+/.*kernel$")
SCHEDULES = (
    "linear",
    "polynomial",
    "cosine",
    "constant",
    "slanted_triangular",
    "warmup_stable_decay",
    "inverse_square_root",
)
# Newton-Schulz iterations of Muon's orthogonalization. Each takes three matrix products.
MUON_ITERATIONS = 5


def is_hidden_matrix(path: str, shape: Sequence[int]) -> bool:
    """Whether --optimizer=muon updates a weight as a matrix.

    Such weights are the kernels of the encoder's layers. Muon treats the kernel query_key_value as three matrices.

    Args:
        path: path of the variable.
        shape: shape of the variable.
    """
    return len(shape) == 2 and bool(_HIDDEN_MATRIX.search(path))


def field(
    default: Any,
    help_text: str,
    choices: Sequence[str] | None = None,
    minimum: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> Any:
    """A dataclass field that is also a command-line flag.

    Args:
        default: the default value.
        help_text: the text that --help shows.
        choices: the values that are allowed.
        minimum: the smallest value.
        below: the limit below which the value must stay.
        most: the largest value.
    """
    return dataclasses.field(
        default=default,
        metadata={"help": help_text, "choices": choices, "minimum": minimum, "below": below, "most": most},
    )


@dataclasses.dataclass(frozen=True)
class TrainingConfig:
    """The options that PretrainingConfig and FinetuningConfig share.

    Every field is a flag. Names follow google-research/bert.

    Raises:
        UserError: a value is out of its range. The message names the flag, the value and the range.
    """

    global_batch_size: int = field(32, "Rows a step, over all devices and machines.", minimum=1)
    learning_rate: float = field(1e-4, "Peak learning rate.", minimum=0.0)
    learning_rate_schedule: str = field("linear", "How the rate falls after the warm-up.", choices=SCHEDULES)
    decay_power: float = field(1.0, "Power of --learning_rate_schedule=polynomial.", minimum=0.0)
    decay_share: float = field(
        0.2,
        "Share of the run, at its end, in which the rate of --learning_rate_schedule=warmup_stable_decay falls to 0.",
        minimum=0.0,
        most=1.0,
    )
    num_warmup_steps: int = field(
        -1,
        "Steps of linear warm-up; -1: a tenth of num_train_steps. With --train_minutes the clock counts: the warm-up "
        "takes num_warmup_steps / num_train_steps of the time. --warmup_share gives this share directly.",
        minimum=-1,
    )
    warmup_share: float = field(
        0.0,
        "--num_warmup_steps as a share of the run: of --train_minutes, or else of the steps.",
        minimum=0.0,
        below=1.0,
    )
    num_train_steps: int = field(
        100_000, "Number of steps of the run. A falling learning rate reaches its end there.", minimum=1
    )
    train_minutes: float = field(
        0.0,
        "Minutes of training, instead of a number of steps. Warm-up and decay follow the clock, without the time to "
        "compile. 0: the number of steps ends the run.",
        minimum=0.0,
    )
    optimizer: str = field(
        "adamw",
        "AdamW as in BERT, LAMB, Muon (for the matrices of the layers; AdamW trains the other weights), or "
        "Adafactor, whose rate is relative to the size of the weights (give 1e-2 instead of AdamW's 1e-4).",
        choices=OPTIMIZERS,
    )
    bias_correction: bool = field(False, "Correct the optimizer's means in the first steps; BERT does not.")
    layer_decay: float = field(
        1.0, "Factor of the learning rate for each layer further from the heads.", minimum=0.0, most=1.0
    )
    gradient_accumulation_steps: int = field(
        1, "Number of parts in which a replica processes its rows, one after the other.", minimum=1
    )
    on_nonfinite: str = field(
        "stop",
        "Reaction to a loss or gradient that is not finite: stop, or skip that step.",
        choices=("stop", "skip"),
    )
    weight_decay_rate: float = field(0.01, "Decoupled decay of all weights except --not_decayed.", minimum=0.0)
    # optimization.create_optimizer of google-research/bert excludes "LayerNorm", "layer_norm" and "bias".
    not_decayed: str = field(
        "layer_norm|bias",
        "Regular expression: variables whose path has a match are not decayed (nor scaled by LAMB's trust ratio).",
    )
    adam_beta_1: float = field(0.9, "Adam's decay of the gradient's mean.", minimum=0.0, below=1.0)
    adam_beta_2: float = field(0.999, "Adam's decay of the gradient's square.", minimum=0.0, below=1.0)
    adam_epsilon: float = field(1e-6, "Adam's epsilon.", minimum=1e-12)
    clip_norm: float = field(
        1.0, "Global norm that gradients are clipped to, after the sum over devices.", minimum=1e-6
    )
    precision: str = field(
        "auto",
        "Compute type; weights stay float32. auto: bfloat16 on a TPU and on GPUs with bfloat16 (from Ampere on), "
        "float16 with loss scaling on older GPUs with tensor cores (T4, V100), else float32.",
        choices=PRECISIONS,
    )
    seed: int = field(12345, "Seed of weights, document order, pairs, masks and dropout.", minimum=0, below=1 << 63)
    init_checkpoint: str = field(
        "", "A model to start the weights from: a work directory, or any layout that convert reads."
    )
    strategy: str = field("auto", "How to spread the work over devices.", choices=STRATEGIES)
    iterations_per_loop: int = field(0, "Steps in one call of the device; 0: a number that suits it.", minimum=0)
    jit_compile: str = field(
        "auto",
        "Part of each step that XLA compiles: step (the whole step; always so on a TPU), parts (all but the matrix "
        "products) or none. auto: step on a GPU and parts on a CPU for runs of at least 500 steps or 3 minutes; none "
        "for shorter runs.",
        choices=("auto", *COMPILATIONS),
    )
    deterministic: bool = field(
        False,
        "On a GPU, compute the same bits in every run and after every resume. This takes about 15 % more time. Runs "
        "on a CPU always repeat.",
    )
    save_checkpoints_steps: int = field(1000, "Steps between checkpoints.", minimum=1)
    keep_checkpoints: int = field(3, "How many of the newest checkpoints are kept.", minimum=1)
    keep_every_steps: int = field(
        0, "Checkpoints at multiples of this number of steps are kept for good; 0: none.", minimum=0
    )
    eval_steps: int = field(1000, "Steps between evaluations on held-out documents.", minimum=1)
    max_eval_steps: int = field(0, "Most batches of one evaluation; 0: all.", minimum=0)
    log_steps: int = field(100, "Steps between lines of metrics.jsonl and TensorBoard, at most 10,000.", minimum=1)
    profile_steps: int = field(
        0, "Number of steps to trace; writes WORKDIR/profile and prints the ten most costly ops.", minimum=0
    )

    # Options that may differ from the run's config.json when a command resumes the run.
    CHANGEABLE_ON_RESUME = frozenset(
        (
            "num_train_steps",
            "train_minutes",
            "strategy",
            "iterations_per_loop",
            "gradient_accumulation_steps",
            "save_checkpoints_steps",
            "eval_steps",
            "max_eval_steps",
            "log_steps",
            "keep_checkpoints",
            "keep_every_steps",
            "on_nonfinite",
            "profile_steps",
        )
    )
    # Default values that the run replaces by a value that follows from other options.
    FOLLOWS_FROM_OTHERS = {"num_warmup_steps": -1, "precision": "auto", "jit_compile": "auto"}
    # Pairs of options that set the same thing, in steps or as a share of the run. The user sets at most one of a pair.
    SHARES = {"num_warmup_steps": "warmup_share"}

    mix_rate_factor = 1.0  # only a fine-tuning has a mix of layers

    # Option -> (another option, the values of that option with which it has an effect). (): all but the default.
    ONLY_WITH = {
        "decay_power": ("learning_rate_schedule", ("polynomial",)),
        "decay_share": ("learning_rate_schedule", ("warmup_stable_decay",)),
        **dict.fromkeys(("adam_beta_1", "adam_beta_2", "adam_epsilon"), ("optimizer", ("adamw", "lamb", "muon"))),
    }

    def check_read(self, names: Iterable[str]) -> None:
        """Checks that the options which the user set have an effect.

        Args:
            names: names of the options that the user set.

        Raises:
            UserError: an option has no effect with the present value of another option.
        """
        defaults = {entry.name: entry.default for entry in dataclasses.fields(self)}
        for name in names:
            other, values = self.ONLY_WITH.get(name, ("", ()))
            if not other or getattr(self, name) == defaults[name]:
                continue
            value = getattr(self, other)
            if value not in values and (values or value == defaults[other]):
                needed = f"--{other}={' or '.join(values)}" if values else f"another --{other}"
                raise UserError(
                    f"--{name}={getattr(self, name)}: has an effect only with {needed}, but this run has "
                    f"--{other}={value}; leave out --{name}"
                )

    def has_ended(self, step: int, seconds: float) -> bool:
        """Whether a run has ended.

        Args:
            step: number of steps that the run has trained.
            seconds: time of the training so far.
        """
        return seconds >= self.train_minutes * 60 if self.train_minutes else step >= self.num_train_steps

    def resolved_warmup_steps(self, num_train_steps: int) -> int:
        """The number of warm-up steps: a tenth of the run instead of -1, unless warmup_share decides.

        Args:
            num_train_steps: steps of the run.

        Returns:
            int: the number of steps; -1 if warmup_share decides.
        """
        is_default = self.num_warmup_steps == self.FOLLOWS_FROM_OTHERS["num_warmup_steps"] and not self.warmup_share
        return num_train_steps // 10 if is_default else self.num_warmup_steps

    @property
    def has_many_lengths(self) -> bool:
        """Whether batches differ in the length of their rows."""
        return False

    @property
    def has_many_batch_sizes(self) -> bool:
        """Whether batches differ in the number of their rows."""
        return False

    def rows_at_a_time(self, num_replicas: int) -> int:
        """The number of rows that a replica processes at a time.

        Args:
            num_replicas: int.
        """
        return self.global_batch_size // num_replicas // self.gradient_accumulation_steps

    def __post_init__(self):
        for entry in dataclasses.fields(self):
            self._check(entry)
        for steps, share in self.SHARES.items():
            if getattr(self, share) and getattr(self, steps) != self._default(steps):
                raise UserError(
                    f"--{steps}={getattr(self, steps)} and --{share}={getattr(self, share)} say the same in two ways; "
                    "give one of them"
                )
        if self.save_checkpoints_steps and self.keep_every_steps % self.save_checkpoints_steps:
            raise UserError(
                f"--keep_every_steps={self.keep_every_steps}: expected a multiple of "
                f"--save_checkpoints_steps={self.save_checkpoints_steps}, since a run saves no other steps"
            )
        try:
            re.compile(self.not_decayed)
        except re.error as error:
            raise UserError(
                f"--not_decayed={self.not_decayed}: is not a regular expression ({error}); write for instance "
                "layer_norm|bias|embeddings"
            ) from None
        if self.bias_correction and self.optimizer == "adafactor":
            raise UserError("--bias_correction is for adamw, lamb and muon; adafactor needs none, so leave it out")

    @classmethod
    def _default(cls, name):
        return cls.__dataclass_fields__[name].default

    def _check(self, entry):
        name, value, limits = entry.name, getattr(self, entry.name), entry.metadata
        if entry.type is float and type(value) is int:
            value = float(value)
            object.__setattr__(self, name, value)
        if entry.type is tuple:
            value = (value,) if value and isinstance(value, str) else tuple(value)
            object.__setattr__(self, name, value)
            for each in value if limits["choices"] else ():
                if each not in limits["choices"]:
                    raise UserError(f"--{name}={each} is not known: {nearest(each, limits['choices'])}")
            return
        if type(value) is not entry.type:
            raise UserError(f"{name} is {value!r}; expected {entry.type.__name__}")
        if entry.type is float and not math.isfinite(value):
            raise UserError(f"--{name}={value}: expected a finite number")
        if limits["choices"] and value not in limits["choices"]:
            raise UserError(f"--{name}={value} is not known: {nearest(value, limits['choices'])}")
        if limits["minimum"] is not None and not value >= limits["minimum"]:
            raise UserError(f"--{name}={value}: expected {limits['minimum']} or more")
        if limits["below"] is not None and not value < limits["below"]:
            raise UserError(f"--{name}={value}: expected less than {limits['below']}")
        if limits["most"] is not None and not value <= limits["most"]:
            raise UserError(f"--{name}={value}: expected {limits['most']} or less")

    def with_precision(self, automatic: str) -> "TrainingConfig":
        """Returns a copy with a compute type instead of "auto".

        Args:
            automatic: the compute type.
        """
        return dataclasses.replace(self, precision=automatic) if self.precision == "auto" else self

    def with_compilation(self, device: str) -> "TrainingConfig":
        """Returns a copy with a value of jit_compile for the device instead of "auto".

        The value is "none" if the run is too short to make up for the time of compiling. Otherwise the device decides:
        - A GPU gets "step", with which BERT base takes a quarter of the time of "none" (docs/results/accelerators.md).
          A deterministic run gets "step" even if it is short.
        - A CPU gets "parts". "step" would be slower, because XLA's matrix products on a CPU are slower than oneDNN's,
          in bfloat16 by much (docs/results/speed.md).
        - A TPU compiles the whole step in any case. It gets "none", which applies if another device resumes the run.

        Args:
            device: "CPU", "GPU" or "TPU".
        """
        if self.jit_compile != "auto":
            return self
        is_long = self.train_minutes >= 3 if self.train_minutes else self.num_train_steps >= 500
        if device == "GPU" and self.deterministic:
            is_long = True
        compiled = {"CPU": "parts", "GPU": "step"}.get(device, "none") if is_long else "none"
        return dataclasses.replace(self, jit_compile=compiled)

    def contradictions(self, wanted: Mapping[str, Any]) -> list[str]:
        """The names of the wanted options that differ from this run although a resumed run must keep them.

        Args:
            wanted: dict name -> value that the user set.
        """
        return [
            name
            for name, value in wanted.items()
            if name not in self.CHANGEABLE_ON_RESUME
            and value != getattr(self, name)
            and value != self.FOLLOWS_FROM_OTHERS.get(name)
        ]

    def changed_by(self, wanted: Mapping[str, Any]) -> "TrainingConfig":
        """Returns a copy with the wanted values of the options that a resumed run may change.

        Args:
            wanted: dict name -> value that the user set.
        """
        changes = {name: value for name, value in wanted.items() if name in self.CHANGEABLE_ON_RESUME}
        for names in self.SHARES.items():
            for given, other in (names, names[::-1]):
                if given in changes and other not in changes:
                    changes[other] = self._default(other)  # the two exclude each other
        return dataclasses.replace(self, **changes)

    def checked_against(self, model_config: BertConfig) -> "TrainingConfig":
        """Returns self if the run fits the model.

        Args:
            model_config: BertConfig of the model.

        Raises:
            UserError: an option does not fit the model.
        """
        if self.max_seq_length > model_config.max_position_embeddings:
            raise UserError(
                f"--max_seq_length={self.max_seq_length} is above the model's max_position_embeddings "
                f"{model_config.max_position_embeddings}; lower --max_seq_length, or raise max_position_embeddings"
            )
        return self

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "TrainingConfig":
        """Makes a configuration from the dict that to_dict returns.

        Args:
            values: dict name -> value of options.

        Raises:
            UserError: a key is unknown, or a value is out of its range.
        """
        names = [entry.name for entry in dataclasses.fields(cls)]
        for key in values:
            if key not in names:
                raise UserError(f"run configuration key {key!r} is not known: {nearest(key, names)}")
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Returns all options as a dict for JSON."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in dataclasses.asdict(self).items()
        }
