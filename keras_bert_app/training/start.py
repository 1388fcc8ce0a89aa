"""Start: the frozen value that holds everything a training needs before its first step."""

import dataclasses
import functools
from typing import Any, TextIO

import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.training_config import TrainingConfig
from keras_bert_app.interop.weights import Weights
from keras_bert_app.modeling.execution import Execution
from keras_bert_app.runs.shared_tokenizer import run_tokenizer
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.training import strategies
from keras_bert_app.training.compilation import training_execution
from keras_bert_app.training.token_sources import TokenSource
from pipelines.wordpiece.tokenizer import BertTokenizer


@dataclasses.dataclass(frozen=True)
class Start:
    """Everything that a training knows before its first step.

    Attributes:
        workdir: the work directory.
        strategy: tf.distribute.Strategy, the devices.
        model_config: BertConfig.
        run: TrainingConfig, resolved for the devices: nothing in it is "auto".
        vocabulary: content of the vocabulary file.
        existing: ExistingRun, the content of the work directory when the command started.
        weights: Weights of --init_checkpoint; None if the run goes on from a checkpoint or starts from scratch.
        weight_lines: lines that tell the user where the weights came from.
        data: PretrainingCorpora, or the labelled Data of a task.
        stream: the output of progress lines; None for standard output.
        flags_for_time: the flags that a long run on a CPU advises, to train for a given time; "" for no advice.
        token_source: TokenSource of a run that begins, if vectors of pieces come from a file; else None.
    """

    workdir: str
    strategy: tf.distribute.Strategy
    model_config: BertConfig
    run: TrainingConfig
    vocabulary: bytes
    existing: ExistingRun
    weights: Weights | None = None
    weight_lines: tuple[str, ...] = ()
    data: Any = None
    stream: TextIO | None = None
    flags_for_time: str = ""
    token_source: TokenSource | None = None

    @functools.cached_property
    def tokenizer(self) -> BertTokenizer:
        """The tokenizer of the vocabulary, shared by the runs of this process."""
        return run_tokenizer(self.vocabulary, self.model_config)

    @functools.cached_property
    def execution(self) -> Execution:
        """The Execution of the training step."""
        return training_execution(self.run, self.strategy)

    @functools.cached_property
    def is_chief(self) -> bool:
        """Whether this process writes the files of the run."""
        return strategies.is_chief(self.strategy)
