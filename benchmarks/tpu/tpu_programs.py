"""The trainer's TPU programs of training, evaluation and prediction, by name.

A name is WHAT/SIZE/S/PRECISION/B/PARTS, such as pretrain/base/128/bfloat16/32/1. A row has S tokens. A core has B rows.
It divides them into PARTS parts and computes one part after the other (gradient_accumulation_steps).
"""

import dataclasses

from keras_bert_app.config.bert_config import SIZES, BertConfig
from keras_bert_app.config.training_config import PRECISIONS
from keras_bert_app.errors import UserError

STEPS_PER_CALL = 100  # the trainer's own number on a TPU
# Kind of pre-training -> the fields of PretrainingConfig that differ.
PRETRAINING = {
    "pretrain": {},
    "pretrain_lamb": {"optimizer": "lamb", "bias_correction": True},
    "pretrain_muon": {"optimizer": "muon"},
    "pretrain_adafactor": {"optimizer": "adafactor"},
    "pretrain_corrected": {"bias_correction": True},
    "pretrain_sop": {"sentence_objective": "sop"},
    "pretrain_no_pairs": {"sentence_objective": "none"},
    "pretrain_by_time": {"train_minutes": 60.0},
    "evaluate": {},
    "norms": {},
    "norms_muon": {"optimizer": "muon"},
}
_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")


@dataclasses.dataclass(frozen=True)
class Program:
    """A program and its settings.

    Attributes:
        what: str. A key of PRETRAINING, or finetune_HEAD or predict_HEAD with a HEAD of tpu_examples.HEADS.
        size: str. Published size of the model.
        length: int. Tokens in a row.
        precision: str. Compute type.
        batch_size: int. Rows of a core.
        parts: int. Parts into which the rows are divided.
    """

    what: str
    size: str
    length: int
    precision: str
    batch_size: int
    parts: int = 1

    @property
    def name(self) -> str:
        return "/".join(map(str, dataclasses.astuple(self)))

    @classmethod
    def named(cls, name: str) -> "Program":
        """The Program of a name.

        Args:
            name: str. WHAT/SIZE/S/PRECISION/B/PARTS.

        Raises:
            UserError: the name does not have this form.
        """
        parts = name.split("/")
        if (
            len(parts) != 6
            or parts[1] not in SIZES
            or parts[3] not in PRECISIONS
            or not all(parts[place].isdecimal() for place in (2, 4, 5))
        ):
            raise UserError(
                f"program {name!r}: expected WHAT/SIZE/S/PRECISION/B/PARTS, such as pretrain/base/128/bfloat16/32/1"
            )
        return cls(parts[0], parts[1], int(parts[2]), parts[3], int(parts[4]), int(parts[5]))


def make(program: Program) -> tuple:
    """Builds the tf.function of a program.

    Args:
        program: Program.

    Returns:
        (tf.function, its arguments as tf.TensorSpecs).

    Raises:
        UserError: the kind of program is unknown.
    """
    import tensorflow as tf

    # The program runs on one core, so it has no sum of gradients over several cores.
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    if program.what in PRETRAINING:
        return _pretraining(program, strategy)

    from benchmarks.tpu import tpu_examples

    what, _, head = program.what.partition("_")
    if what in ("finetune", "predict") and head in tpu_examples.HEADS:
        return _finetuning(program, what, head, strategy)
    raise UserError(
        f"program {program.name}: WHAT is {program.what!r}; expected {', '.join(PRETRAINING)}, finetune_HEAD or "
        f"predict_HEAD, where HEAD is one of {', '.join(tpu_examples.HEADS)}"
    )


def pretraining_run(program: Program):
    """The PretrainingConfig of a Program, resolved.

    Args:
        program: Program. Its `what` is a key of PRETRAINING.
    """
    from keras_bert_app.config.pretraining_config import PretrainingConfig

    return PretrainingConfig(
        max_seq_length=program.length,
        global_batch_size=program.batch_size,
        precision=program.precision,
        gradient_accumulation_steps=program.parts,
        strategy="one_device",
        jit_compile="step",
        **PRETRAINING[program.what],
    ).resolved()


def pretraining_specs(run) -> dict:
    """The tf.TensorSpecs of a batch by name, each [B, ...].

    Args:
        run: PretrainingConfig, resolved.
    """
    import tensorflow as tf

    rows, length, predictions = run.global_batch_size, run.max_seq_length, run.max_predictions_per_seq
    shapes = {
        **dict.fromkeys(_INPUTS, [rows, length]),
        "next_sentence_labels": [rows],
        **dict.fromkeys(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"), [rows, predictions]),
    }
    return {
        name: tf.TensorSpec(shape, tf.float32 if name == "masked_lm_weights" else tf.int32, name=name)
        for name, shape in shapes.items()
    }


def _pretraining(program, strategy):
    import tensorflow as tf

    from keras_bert_app.modeling.execution import STEP
    from keras_bert_app.modeling.pretrainer import BertPretrainer
    from keras_bert_app.training import forward, steps, strategies
    from keras_bert_app.training.losses import PretrainingObjective
    from keras_bert_app.training.optimizers import choice

    run, config = pretraining_run(program), BertConfig.of_size(program.size)
    objective = PretrainingObjective(run.sentence_objective)
    with strategy.scope():
        model = BertPretrainer(config, dtype=strategies.KERAS_POLICIES[run.precision], parts=run.trained_parts())
        if program.what == "evaluate":
            return forward.evaluation_function(strategy, model, objective, STEP), (pretraining_specs(run),)
        optimizer = choice.make_optimizer(
            run, {variable.path: variable.value for variable in model.trainable_variables}, config.num_hidden_layers
        )
    if program.what.startswith("norms"):
        return choice.norms_function(strategy, optimizer), (tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.int32))
    return (
        steps.train_function(strategy, model, optimizer, run, objective),
        _call_arguments(pretraining_specs(run), run),
    )


def _finetuning(program, what, head, strategy):
    import tensorflow as tf

    from benchmarks.tpu import tpu_examples
    from keras_bert_app.modeling.execution import STEP
    from keras_bert_app.modeling.task_model import BertTaskModel
    from keras_bert_app.tasks import batches, transfer
    from keras_bert_app.training import forward, steps, strategies
    from keras_bert_app.training.optimizers import choice

    config = BertConfig.of_size(program.size)
    task, labels, run, features = tpu_examples.finetuning(
        head,
        max_seq_length=program.length,
        global_batch_size=program.batch_size,
        precision=program.precision,
        gradient_accumulation_steps=program.parts,
        jit_compile="step",
    )
    batch, _ = next(batches.training_batches(features, run))
    specs = {name: tf.TensorSpec(values.shape, values.dtype, name=name) for name, values in batch.items()}
    with strategy.scope():
        model = BertTaskModel(
            config, task.family.make_head(task, run, labels), dtype=strategies.KERAS_POLICIES[run.precision]
        )
        if what == "predict":
            return forward.prediction_function(strategy, model, STEP), ({name: specs[name] for name in _INPUTS},)
        optimizer = choice.make_optimizer(run, transfer.trained_variables(model, run), config.num_hidden_layers)
        optimizer.first_steps = transfer.first_steps(optimizer.variables_by_path, run, config.num_hidden_layers)
    return (
        steps.train_function(strategy, model, optimizer, run, task.family.make_objective(task, run, model.head)),
        _call_arguments(specs, run),
    )


def _call_arguments(specs, run):
    """The arguments of a train call: stacked batches, number of batches, first step, progress, and the stop signal.

    Only runs with a time budget have the argument for progress.
    """
    import tensorflow as tf

    stacked = {
        name: tf.TensorSpec([STEPS_PER_CALL, *spec.shape], spec.dtype, name=name) for name, spec in specs.items()
    }
    integer, real = tf.TensorSpec([], tf.int32), tf.TensorSpec([], tf.float32)
    return stacked, integer, integer, tf.TensorSpec([2], tf.float32) if run.train_minutes else None, real
