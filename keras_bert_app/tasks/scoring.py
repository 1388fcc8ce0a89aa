"""A finished fine-tuning run: its scores on labelled files, and its answers to files without labels."""

import json
import os
import tempfile

import numpy as np

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.modeling.execution import Execution
from keras_bert_app.modeling.task_models import head_of, make_task_model
from keras_bert_app.runs import checkpoints, seeds, threads
from keras_bert_app.runs.shared_tokenizer import run_tokenizer
from keras_bert_app.runs.work_directory import ExistingRun
from keras_bert_app.tasks import batches, dev_halves, intervals, labelled_data, lengths, predicting, registry, results
from keras_bert_app.tasks.features import Features
from keras_bert_app.tasks.task import SIMILARITY, TEXT_TO_TEXT, Examples, distinct_names
from keras_bert_app.terminal.progress import Progress
from keras_bert_app.training import forward, strategies
from keras_bert_app.training.compilation import inference_execution
from pipelines import processors


class FinetunedRun:
    """A model with the best weights of a run.

    Args:
        workdir: str. Work directory of the run. If it holds runs of several seeds, the class uses the run with the
            best score.
        changes: dict of fields of FinetuningConfig, such as a longer max_seq_length. They override the run's settings
            and the values that were tuned on its dev examples.
        strategy: tf.distribute.Strategy; None for the strategy that the run's configuration names.
        stream: File for progress lines; None for no progress.

    Attributes:
        directory: str. Work directory of the one run.
        checkpoint: str. Path of its best weights.
        task: Task.
        run: FinetuningConfig.
        labels: tuple of str. Names of the model's outputs.
        model: the model of modeling.task_models.
        tokenizer: The tokenizer of the run's vocabulary.

    Raises:
        UserError: the directory holds no fine-tuning run, or the run has no scored weights yet.
    """

    def __init__(self, workdir: str, changes: dict | None = None, strategy=None, stream=None):
        self.directory = seeds.best_run(workdir)
        existing = ExistingRun.read(self.directory)
        model_config, run = existing.config(FinetuningConfig)
        self.run = FinetuningConfig(
            **{**run.to_dict(), **results.tuned(self.directory), **(changes or {})}
        ).checked_against(model_config)
        self.task, self.labels = registry.find(run.task).bound(run), tuple(existing.note("labels"))
        self.task.check_options(self.run, changes or {})
        self.run.check_read(changes or ())
        if "seed" in (changes or {}) and not self.run.temperature:
            raise UserError(
                f"--seed={self.run.seed}: decides draws; give --num_beams=1 --temperature=1 too, or leave it out"
            )
        self.checkpoint = best_weights(self.directory)
        checkpoints.check_size(self.checkpoint, model_config)
        self.strategy = strategy = strategy or strategies.make_strategy(self.run.strategy)
        strategies.check_batch_size(strategy, self.run.global_batch_size)
        self.run = strategies.with_precision(self.run, strategy)
        with strategy.scope():
            self.model = make_task_model(
                model_config, head_of(existing.note("head")), dtype=strategies.KERAS_POLICIES[self.run.precision]
            )
        checkpoints.restore(self.checkpoint, self.model)
        self.tokenizer = run_tokenizer(existing.vocabulary(), model_config, existing.target_vocabulary())
        self.stream, self._calls = stream if strategies.is_chief(strategy) else None, {}

    def predictions(self, examples: list, has_labels: bool = False) -> tuple[list[dict], list[str]]:
        """Predicts examples.

        Args:
            examples: list of the family's examples.
            has_labels: bool. Whether the examples have labels, which must then be labels of the run.

        Returns:
            (predictions, notes such as the number of texts that were cut). A prediction is a dict, such as label and
            probabilities; probabilities.jsonl of `evaluate` has the same fields.

        Raises:
            UserError: an example does not fit the task, or has a label that the run does not know.
        """
        family = self.task.family
        features = family.featurize(self.task, examples, self.tokenizer, self.run, self.labels, has_labels)
        logits = self.unit_logits(features)
        return family.decode(self.task, examples, features, logits, self.run, self.labels), features.notes

    def logits(self, examples: list) -> np.ndarray | list[np.ndarray]:
        """The logits of each unit of the features of examples.

        Args:
            examples: list of the family's examples. Their labels are not read.

        Returns:
            The arrays of predicting.unit_logits.

        Raises:
            UserError: an example does not fit the task.
        """
        features = self.task.family.featurize(
            self.task, examples, self.tokenizer, self.run, self.labels, has_labels=False
        )
        return self.unit_logits(features)

    def unit_logits(self, features: Features) -> np.ndarray | list[np.ndarray]:
        """The logits of each unit.

        Args:
            features: Features of U units.

        Returns:
            The arrays of predicting.unit_logits.
        """
        execution, shapes = compilation(self.strategy, self.run, self.model.config, features)
        if execution not in self._calls:
            self._calls[execution] = forward.make_prediction_call(
                self.strategy, self.model, execution, self.task.family.make_answers(self.run)
            )
        shown = Progress("rows", features.num_units, int(features.work().sum()), self.stream) if self.stream else None
        logits = predicting.unit_logits(
            self._calls[execution], self.model, features, self.run, self.run.global_batch_size, progress=shown, **shapes
        )
        if shown:
            shown.end()
        return logits

    def evaluate(
        self, path: str | os.PathLike, most: int = 0, split: str | None = None, has_chosen: bool = False
    ) -> tuple[dict[str, float], Examples, list[str], list[dict]]:
        """Scores the run on a labelled file.

        Args:
            path: str or os.PathLike. A file or a glob pattern.
            most: int. Number of examples to score, from the first one on; 0 for all.
            split: str or None. The split whose part of the file is scored; None for the whole file.
            has_chosen: bool. Whether the file is a dev file of the run. If one half of dev chose the weights, the
                method scores only the other half. In a further dev split, it leaves out the texts of the first half.

        Returns:
            (dict metric -> score, examples, notes, predictions).

        Raises:
            UserError: the file cannot be read as the task's format, or all of its examples chose the weights.
        """
        examples, notes = self.task.read_file(os.fspath(path), self.run, most=most, split=split), []
        if has_chosen and split not in (None, "dev"):
            everything, examples = examples, labelled_data.without(self.task, examples, self._choosing_examples())
            if not examples:
                raise UserError(f"{path}: all examples chose the weights of the run; --input_file={path} scores them")
            num_chosen = len(everything) - len(examples)
            notes = [f"{num_chosen:,} further ones chose the weights"] if num_chosen else []
            examples = examples.first_of_groups(self.run.max_eval_examples)
        elif has_chosen and self.run.test_file:
            notes = ["these examples chose the weights; results.json has the score of --test_file"]
        elif has_chosen:
            chosen, examples = dev_halves.split(self.task, examples)
            notes = [f"the other {len(chosen):,} examples chose the weights; --input_file={path} scores all"]
        predictions, more_notes = self.predictions(examples, has_labels=True)
        scores = self.task.family.score(self.task, examples, predictions, self.labels)
        return scores, examples, [*notes, *more_notes], predictions

    def _choosing_examples(self):
        """The examples of dev that chose the weights."""
        dev = self.task.read_split(self.run.data_dir, "dev", self.run, most=self.run.max_eval_examples)
        return dev if self.run.test_file else dev_halves.split(self.task, dev)[0]

    def interval(self, examples: list, predictions: list[dict]) -> tuple[float, float]:
        """The 95 % interval of the task's first metric.

        Args:
            examples: list of labelled examples, as evaluate returns them.
            predictions: list of the predictions for these examples.
        """
        family = self.task.family
        measure = family.measure(self.task, examples, predictions, self.labels)
        return intervals.interval(measure, dev_halves.sources_of(self.task, examples))

    def predict(self, path: str | os.PathLike, output_dir: str | os.PathLike) -> tuple[int, list[str], list[str]]:
        """Answers a file.

        The answers go to OUTPUT_DIR/predictions.* in the format of the task's official scorer. Answers to the test
        files of GLUE have the names that its server expects, such as SST-2.tsv. probabilities.jsonl has the
        probabilities.

        Args:
            path: str or os.PathLike. A file or a glob pattern.
            output_dir: str or os.PathLike. The directory for the answers.

        Returns:
            (number of examples, names of the files, notes).
        """
        output_dir = os.fspath(output_dir)
        make_ready(output_dir)
        examples = self.task.read_file(os.fspath(path), self.run, has_labels=False)
        predictions, notes = self.predictions(examples)
        return len(examples), self.write(output_dir, examples, predictions), notes

    def write(self, output_dir: str, examples: list, predictions: list[dict], **more) -> list[str]:
        """Writes predictions and probabilities, each file completely or not at all.

        Args:
            output_dir: str. The directory for the files.
            examples: list of the family's examples.
            predictions: Predictions for the examples.
            **more: Further values; each goes to NAME.json.

        Returns:
            The names of the files.
        """
        make_ready(output_dir)
        # The family appends to its files and names them, so they are complete only at the end of the block.
        with tempfile.TemporaryDirectory(dir=output_dir, prefix=".") as temporary:
            self.task.family.write_predictions(self.task, temporary, examples, predictions)
            with open(os.path.join(temporary, "probabilities.jsonl"), "w", encoding="utf-8") as file:
                for name, prediction in zip(distinct_names(examples), predictions, strict=True):
                    file.write(json.dumps({"guid": name, **prediction}, ensure_ascii=False) + "\n")
            for name, values in more.items():
                results.write_json(os.path.join(temporary, f"{name}.json"), values)
            names = sorted(os.listdir(temporary))
            for name in names:
                os.replace(os.path.join(temporary, name), os.path.join(output_dir, name))
        return names


class Ensemble(FinetunedRun):
    """Runs of several seeds that answer together by the mean of their logits.

    An ensemble of one run answers as this run does. Values that were tuned on dev examples come from the first run.

    Args:
        directories: list of work directories of one finetune command, as seeds.sound returns them.
        changes: dict. See FinetunedRun.
        strategy: tf.distribute.Strategy or None. See FinetunedRun.
        stream: File or None. See FinetunedRun.
    """

    def __init__(self, directories: list[str], changes: dict | None = None, strategy=None, stream=None):
        super().__init__(directories[0], changes, strategy, stream)
        self.directories = directories

    def predictions(self, examples: list, has_labels: bool = False) -> tuple[list[dict], list[str]]:
        """Predicts as FinetunedRun.predictions does. A further note names the runs.

        The arguments and errors are those of FinetunedRun.predictions.
        """
        predictions, notes = super().predictions(examples, has_labels)
        return predictions, [
            *notes,
            f"answered by {', '.join(os.path.basename(directory) for directory in self.directories)}",
        ]

    def unit_logits(self, features: Features) -> np.ndarray | list[np.ndarray]:
        """The mean logits over the runs. One model loads the weights of each run in turn.

        Args:
            features: Features of U units.

        Returns:
            The arrays of predicting.unit_logits.

        Raises:
            UserError: the task's answers have no mean, or the runs have other labels.
        """
        if self.task.kind in (TEXT_TO_TEXT, SIMILARITY) and len(self.directories) > 1:
            what = "texts" if self.task.kind == TEXT_TO_TEXT else "vectors"
            raise UserError(f"--ensemble: the {what} of several runs have no mean; leave out --ensemble")
        # The run of self.directory answers last, so that the model has the weights of this run afterwards.
        *others, own = [*self.directories[1:], self.directory]
        return _mean(
            [
                *(self._logits_of_run(directory, features) for directory in others),
                self._logits_of_run(own, features),
            ]
        )

    def _logits_of_run(self, directory, features):
        if len(self.directories) > 1:
            labels = ExistingRun.read(directory).note("labels")
            if tuple(labels) != self.labels:
                raise UserError(
                    f"{directory}: answers {', '.join(labels[:6])}; {self.directory} answers "
                    f"{', '.join(self.labels[:6])}; expected runs of one finetune command"
                )
            checkpoints.restore(best_weights(directory), self.model)
            if self.stream:
                print(f"{directory} answers", file=self.stream, flush=True)
            return self._in_units_of(directory, super().unit_logits(features))
        return super().unit_logits(features)

    def _in_units_of(self, directory, logits):
        """Numbers of the model in the units of another seed, whose training examples may have been other ones."""
        own, other = self.model.head, head_of(ExistingRun.read(directory).note("head"))
        if (own.scale, own.offset) == (other.scale, other.offset):
            return logits
        return (np.asarray(logits) - own.offset) / own.scale * other.scale + other.offset


def _mean(logits):
    """The mean over runs, of arrays or of lists of arrays."""
    if isinstance(logits[0], list):
        return [np.mean(rows, axis=0) for rows in zip(*logits, strict=True)]
    return np.mean(logits, axis=0)


def opened(workdir: str, together: bool = False, changes: dict | None = None, stream=None) -> FinetunedRun:
    """Opens the run of a work directory for predictions.

    Args:
        workdir: str. The work directory.
        together: bool. Whether to return the Ensemble of all seeds that scored better than the baseline.
        changes: dict. See FinetunedRun.
        stream: File or None. See FinetunedRun.

    Raises:
        UserError: as for FinetunedRun; or `together` is True and the directory has no runs of several seeds.
    """
    if not together:
        return FinetunedRun(workdir, changes, stream=stream)
    if not seeds.has_several(workdir):
        raise UserError(
            f"--ensemble: --workdir={workdir} holds no runs of several seeds that ended; leave out --ensemble, or give "
            "the --workdir of a finetune command with --num_seeds"
        )
    return Ensemble(seeds.sound(workdir), changes, stream=stream)


def set_threads(workdir: str) -> None:
    """Sets the threads of TensorFlow for a process that only answers with a run. See runs.threads.

    Args:
        workdir: str. The work directory of the run. The process must not have computed anything yet.

    Raises:
        UserError: the directory holds no fine-tuning run.
    """
    model_config, run = ExistingRun.read(seeds.best_run(workdir)).config(FinetuningConfig)
    if registry.find(run.task).kind == TEXT_TO_TEXT:
        threads.use_one_thread_per_op(model_config.hidden_size)


def make_ready(output_dir: str) -> None:
    """Makes a directory for answers.

    Callers use the function before long work, so that an error of the directory appears early.

    Args:
        output_dir: str. The directory. It may exist.

    Raises:
        OSError: the directory is not writable.
    """
    os.makedirs(output_dir, exist_ok=True)
    tempfile.TemporaryFile(dir=output_dir).close()


def compilation(
    strategy, run: FinetuningConfig, config: BertConfig, features: Features, times: int = 1
) -> tuple[Execution, dict]:
    """Decides what XLA compiles for predictions.

    Args:
        strategy: tf.distribute.Strategy.
        run: FinetuningConfig.
        config: BertConfig.
        features: Features to predict for.
        times: int. How often the predictions are made.

    Returns:
        (Execution, dict of keyword arguments for predicting.unit_logits).
    """
    device = strategies.device_kind(strategy)
    is_worth = batches.is_worth_compiling(features, run, run.global_batch_size, lengths.cost("parts", config), times)
    execution = inference_execution(run, strategy, is_worth)
    # A GPU multiplies faster if lengths are multiples of lengths.MULTIPLE. All replicas need the same number of rows.
    is_any_shape = not execution.is_compiled and device == "CPU" and strategy.num_replicas_in_sync == 1
    length_cost = lengths.cost(execution.mode, config, device)
    writes_texts = registry.find(run.task).kind == TEXT_TO_TEXT
    num_calls = processors.num_cores() if is_any_shape and writes_texts else 1
    return execution, {"length_cost": length_cost, "is_any_shape": is_any_shape, "num_calls": num_calls}


def best_weights(directory: str) -> str:
    """The path of a run's checkpoint with the best score.

    Args:
        directory: str. Work directory of the run.

    Raises:
        UserError: the run has no score yet.
    """
    best = checkpoints.best_checkpoints(directory)
    if not best:
        raise UserError(f"{directory}: has no scored weights yet; let the run reach its first evaluation")
    return best[-1]
