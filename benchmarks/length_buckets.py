"""Fine-tuning and prediction on texts of real lengths: batches of like lengths against padding all to the maximum.

python -m benchmarks.length_buckets --task=sst-2 --data_dir=glue/SST-2 --encoder=MODEL

The same examples, model and batch size, one way after the other in each round of one process; both ways have compiled
before the clock starts. The answers of both are compared.
"""

import dataclasses
import statistics
import time

import numpy as np
from absl import flags

from benchmarks.tokenizer_peers import machine
from keras_bert_app.cli import app
from keras_bert_app.finetuning_config import FinetuningConfig
from keras_bert_app.training_config import PRECISIONS

_ENCODER = flags.DEFINE_string("encoder", "", "The pre-trained model, in any layout that convert reads.")
_TASK = flags.DEFINE_string("task", "sst-2", "A task of finetune.")
_DATA = flags.DEFINE_string("data_dir", "", "Directory of the task's files.")
_EXAMPLES = flags.DEFINE_integer("examples", 512, "Training and dev examples, the first ones.", lower_bound=64)
_MAX_SEQ_LENGTH = flags.DEFINE_integer("max_seq_length", 128, "What the padded way pads to.", lower_bound=8)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 32, "Examples a batch.", lower_bound=1)
_PRECISION = flags.DEFINE_enum("precision", "float32", PRECISIONS, "Compute type.")
_ROUNDS = flags.DEFINE_integer("rounds", 3, "Counted rounds.", lower_bound=1)


def main(arguments):
    del arguments
    encoder, data_dir = app.required("encoder", "data_dir")
    with app.quiet_start():
        from keras_bert_app.interop import load
        from pipelines.wordpiece import BertTokenizer
    weights, _ = load.load_weights(encoder, allow_missing=("pooler", "masked_lm", "next_sentence"))
    run = FinetuningConfig(
        task=_TASK.value, data_dir=data_dir, max_seq_length=_MAX_SEQ_LENGTH.value, global_batch_size=_BATCH_SIZE.value,
        max_train_examples=_EXAMPLES.value, max_eval_examples=_EXAMPLES.value, strategy="one_device", log_steps=1,
        learning_rate=0.0, precision=_PRECISION.value, jit_compile="parts").resolved(1)
    tokenizer = BertTokenizer(weights.vocabulary, weights.config.do_lower_case)
    print(", ".join(f"{name} {value}" for name, value in machine(("tensorflow", "keras")).items()))
    ways = {name: Way(weights, dataclasses.replace(run, length_buckets=name == "buckets"), tokenizer)
            for name in ("buckets", "padded")}
    tokens = int(ways["buckets"].data.train.row_lengths().sum())
    print(f"{_TASK.value}: {ways['buckets'].data.train.num_units:,} training examples, {tokens:,} tokens, mean "
          f"{ways['buckets'].data.train.row_lengths().mean():.1f}; batches of {_BATCH_SIZE.value}, {_PRECISION.value}\n", flush=True)
    times = {(name, part): [] for name in ways for part in ("training", "prediction")}
    for number in range(_ROUNDS.value + 1):
        for name, way in ways.items():
            for part in ("training", "prediction"):
                seconds = way.timed(getattr(way, part))
                if number:  # the first round compiles
                    times[name, part].append(seconds)
                print(f"round {number or 'that compiles'}: {part}, {name}: {seconds:.2f} s", flush=True)
    print()
    answers = [way.answers for way in ways.values()]
    print("| part | buckets, s, median | padded, s, median | ratio, median | lowest to highest |\n|---|---|---|---|---|")
    for part in ("training", "prediction"):
        both = [times[name, part] for name in ways]
        ratios = [padded / buckets for buckets, padded in zip(*both)]
        print(f"| {part} | {statistics.median(both[0]):.2f} | {statistics.median(both[1]):.2f} | {statistics.median(ratios):.2f} "
              f"| {min(ratios):.2f} to {max(ratios):.2f} |")
    print(f"\nlargest difference of a logit: {max(np.abs(one - other).max() for one, other in zip(*answers)):.1e}")


class Way:
    """One way of batching, its model and compiled functions."""

    def __init__(self, weights, run, tokenizer):
        from keras_bert_app.interop import load
        from keras_bert_app.modeling.task_model import BertTaskModel
        from keras_bert_app.tasks.finetune import trained_variables
        from keras_bert_app.tasks.labelled_data import load_data
        from keras_bert_app.training import optimizers, steps
        from keras_bert_app.training import strategy as strategies

        strategy = strategies.make_strategy(run.strategy)
        self.run, self.data = run, load_data(run, tokenizer)
        task = self.data.task
        with strategy.scope():
            self.model = BertTaskModel(weights.config, task.family.make_head(task, run, self.data.labels),
                                       dtype=strategies.KERAS_POLICIES[run.precision])
            load.assign(self.model, weights)
            optimizer = optimizers.make_optimizer(run, trained_variables(self.model, run), weights.config.num_hidden_layers)
        self.train_call = steps.make_train_call(strategy, self.model, optimizer, run, task.family.make_objective(task, run),
                                                run.length_buckets)
        self.predict_call = steps.make_prediction_call(strategy, self.model, steps.forward_compilation(strategy, run, True))

    def timed(self, part):
        started = time.perf_counter()
        part()
        return time.perf_counter() - started

    def training(self):
        """One epoch."""
        import tensorflow as tf

        from keras_bert_app.tasks import batches
        for batch, (epoch, _) in batches.training_batches(self.data.train, self.run):
            self.train_call({name: values[tf.newaxis] for name, values in batch.items()}, 0)
            if epoch:
                return

    def prediction(self):
        """All dev examples; their logits stand in answers."""
        from keras_bert_app.tasks import predicting
        self.answers = predicting.unit_logits(self.predict_call, self.model, self.data.dev, self.run, self.run.global_batch_size)


if __name__ == "__main__":
    app.run(main, __doc__)
