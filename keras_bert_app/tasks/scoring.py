"""A fine-tuned run at work: scores on labelled files, and answers for files without labels."""

import json
import os
import tempfile

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.modeling.task_model import BertTaskModel, Head
from keras_bert_app.runs import checkpoints, seeds, work_directory
from keras_bert_app.runs.shared_tokenizer import run_tokenizer
from keras_bert_app.tasks import batches, lengths, predicting, registry, results
from keras_bert_app.tasks.task import names_in_answers
from keras_bert_app.terminal.progress import Progress
from keras_bert_app.training import forward, strategies


class FinetunedRun:
    """The best weights of a run, ready to answer.

    Args:
        workdir: of the run; of several seeds the one with the best score is taken. changes: dict of fields of
            FinetuningConfig in place of the run's and of what was tuned on its dev examples, such as a longer
            max_seq_length. strategy: tf.distribute.Strategy, or
            None for the one that the run's configuration names. stream: where progress goes; None: nowhere.

    Attributes:
        directory, checkpoint, task, run, labels, model, tokenizer.

    Raises:
        UserError: no fine-tuning run lives there, or it has saved nothing yet.
    """

    def __init__(self, workdir, changes=None, strategy=None, stream=None):
        self.directory = seeds.best_run(workdir)
        model_config, run, _ = work_directory.read_config(self.directory, FinetuningConfig)
        values = read_json(work_directory.path_in(self.directory, "config.json"))
        self.run = FinetuningConfig(
            **{**run.to_dict(), **results.tuned(self.directory), **(changes or {})}
        ).checked_against(model_config)
        self.task, self.labels = registry.find(run.task), tuple(values["labels"])
        self.task.check_options(self.run, changes or {})
        self.checkpoint = best_weights(self.directory)
        self.strategy = strategy = strategy or strategies.make_strategy(self.run.strategy)
        strategies.check_batch_size(strategy, self.run.global_batch_size)
        self.run = strategies.with_precision(self.run, strategy)
        with strategy.scope():
            self.model = BertTaskModel(
                model_config, Head(**values["head"]), dtype=strategies.KERAS_POLICIES[self.run.precision]
            )
        checkpoints.restore(self.checkpoint, self.model)
        self.tokenizer = run_tokenizer(work_directory.read_vocabulary(self.directory), model_config.do_lower_case)
        self.stream, self._calls = stream if strategies.is_chief(strategy) else None, {}

    def predictions(self, examples, has_labels=False):
        """(predictions for examples, notes such as how many texts were cut)."""
        family = self.task.family
        features = family.featurize(self.task, examples, self.tokenizer, self.run, self.labels, has_labels)
        logits = self.unit_logits(features)
        return family.decode(self.task, examples, features, logits, self.run, self.labels), features.notes

    def logits(self, examples):
        """The model's logits, one row for each example."""
        features = self.task.family.featurize(
            self.task, examples, self.tokenizer, self.run, self.labels, has_labels=False
        )
        return self.unit_logits(features)

    def unit_logits(self, features):
        """The logits of each row of features, as of predicting.unit_logits."""
        compiled, shapes = compilation(self.strategy, self.run, self.model.config, features)
        if compiled not in self._calls:
            self._calls[compiled] = forward.make_prediction_call(self.strategy, self.model, compiled)
        shown = Progress("rows", features.num_units, int(features.work().sum()), self.stream) if self.stream else None
        logits = predicting.unit_logits(
            self._calls[compiled], self.model, features, self.run, self.run.global_batch_size, progress=shown, **shapes
        )
        if shown:
            shown.end()
        return logits

    def evaluate(self, path, most=0, split=None):
        """(figures: metric -> score, examples, notes, predictions) of a labelled file, or of a split's part of it."""
        examples = self.task.read_file(path, self.run, most=most, split=split)
        found, notes = self.predictions(examples, has_labels=True)
        return self.task.family.score(self.task, examples, found, self.labels), examples, notes, found

    def predict(self, path, output_dir):
        """Answers a file: OUTPUT_DIR/predictions.* as the task's official scorer takes them (GLUE's test files: SST-2.tsv and so on),
        and probabilities.jsonl.

        Returns:
            (number of examples, names of the files, notes).
        """
        make_ready(output_dir)
        examples = self.task.read_file(path, self.run, has_labels=False)
        found, notes = self.predictions(examples)
        return len(examples), self.write(output_dir, examples, found), notes

    def write(self, output_dir, examples, found, **more):
        """Writes predictions and probabilities, each file whole or not at all. Returns their names.

        Args:
            more: what else is written, values by name: as NAME.json.
        """
        make_ready(output_dir)
        with tempfile.TemporaryDirectory(dir=output_dir, prefix=".") as temporary:
            self.task.family.write_predictions(self.task, temporary, examples, found)
            with open(os.path.join(temporary, "probabilities.jsonl"), "w", encoding="utf-8") as file:
                for name, one in zip(names_in_answers(examples), found):
                    file.write(json.dumps({"guid": name, **one}, ensure_ascii=False) + "\n")
            for name, values in more.items():
                results.write_json(os.path.join(temporary, f"{name}.json"), values)
            names = sorted(os.listdir(temporary))
            for name in names:
                os.replace(os.path.join(temporary, name), os.path.join(output_dir, name))
        return names


class Ensemble(FinetunedRun):
    """Runs of several seeds that answer as one, by the mean of their logits; of one run it answers as that run does.

    Args:
        directories: of runs of one finetune command, as of seeds.sound: what was tuned on dev examples is the first one's. changes,
            strategy, stream: as of FinetunedRun.
    """

    def __init__(self, directories, changes=None, strategy=None, stream=None):
        super().__init__(directories[0], changes, strategy, stream)
        self.directories = directories

    def predictions(self, examples, has_labels=False):
        found, notes = super().predictions(examples, has_labels)
        return found, [
            *notes,
            f"answered by {', '.join(os.path.basename(directory) for directory in self.directories)}",
        ]

    def unit_logits(self, features):
        """The means over the runs, whose weights the model has one after the other."""
        *others, own = [*self.directories[1:], self.directory]
        return _mean([*(self._of(directory, features) for directory in others), self._of(own, features)])

    def _of(self, directory, features):
        if len(self.directories) > 1:
            labels = read_json(work_directory.path_in(directory, "config.json"))["labels"]
            if tuple(labels) != self.labels:
                raise UserError(
                    f"{directory}: answers {', '.join(labels[:6])}, the others {', '.join(self.labels[:6])}; expected runs of one "
                    "finetune command"
                )
            checkpoints.restore(best_weights(directory), self.model)
            if self.stream:
                print(f"{directory} answers", file=self.stream, flush=True)
        return super().unit_logits(features)


def _mean(logits):
    """The mean over runs, of arrays or of lists of arrays."""
    return [np.mean(rows, axis=0) for rows in zip(*logits)] if isinstance(logits[0], list) else np.mean(logits, axis=0)


def opened(workdir, together=False, changes=None, stream=None):
    """The FinetunedRun of a work directory; with `together` the Ensemble of its seeds, without those no better than the baseline.

    Raises:
        UserError: as of FinetunedRun, or there are no several seeds.
    """
    if not together:
        return FinetunedRun(workdir, changes, stream=stream)
    if not seeds.has_several(workdir):
        raise UserError(
            f"--ensemble: --workdir={workdir} holds no runs of several seeds that ended; leave it out, or give the --workdir of a "
            "finetune command with --num_seeds"
        )
    return Ensemble(seeds.sound(workdir), changes, stream=stream)


def make_ready(output_dir):
    """Makes a directory for answers, and raises OSError where none can be written to it: before the work is done."""
    os.makedirs(output_dir, exist_ok=True)
    tempfile.TemporaryFile(dir=output_dir).close()


def compilation(strategy, run, config, features, times=1):
    """(what XLA compiles of predictions for features, the shapes of batches.evaluation_batches that go with it).

    Args:
        times: how often they will be made.
    """
    device = strategies.device_kind(strategy)
    is_worth = batches.is_worth_compiling(features, run, run.global_batch_size, lengths.cost("parts", config), times)
    compiled = forward.forward_compilation(strategy, run, is_worth)
    # A GPU's products are faster at multiples, and replicas take as many rows each.
    is_any_shape = not compiled and device == "CPU" and strategy.num_replicas_in_sync == 1
    return compiled, {"length_cost": lengths.cost(compiled, config, device == "TPU"), "is_any_shape": is_any_shape}


def best_weights(directory):
    """The checkpoint of a run that scored best.

    Raises:
        UserError: nothing was scored yet.
    """
    found = checkpoints.best_checkpoints(directory)
    if not found:
        raise UserError(f"{directory}: has no scored weights yet; let the run come to its first evaluation")
    return found[-1]
