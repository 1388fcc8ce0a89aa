"""Scorer: evaluates a model on the dev examples that choose its best weights, and keeps the weights."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import UserError
from keras_bert_app.runs import checkpoint_averages, checkpoints
from keras_bert_app.tasks import predicting, scoring
from keras_bert_app.tasks.features import Features
from keras_bert_app.tasks.labelled_data import Data
from keras_bert_app.training import forward, reporting, strategies


class Scorer:
    """Evaluates a model on the dev examples that choose its best weights, and keeps these weights.

    The scorer also decides whether a run ends early.

    Args:
        workdir: str. Work directory of the run.
        data: labelled_data.Data.
        run: FinetuningConfig.
        model: BertTaskModel.
        strategy: tf.distribute.Strategy.
        reporter: reporting.Reporter.
        first_step: int. The step from which the run continues. The scorer ignores later rows of metrics.jsonl.

    Attributes:
        kept: (step, score, whether they are a mean of checkpoints) of the best weights on disk; None without.
        history: list of (step, score by the first metric of the task).
        average: dict with steps and score of the mean of the newest checkpoints. {} before evaluate_average.
    """

    def __init__(
        self,
        workdir: str,
        data: Data,
        run: FinetuningConfig,
        model,
        strategy,
        reporter: reporting.Reporter,
        first_step: int,
    ):
        self.workdir, self.data, self.run, self.model, self.reporter = workdir, data, run, model, reporter
        self.strategy, self.chief = strategy, strategies.is_chief(strategy)
        self.times = max(1, run.num_train_steps // run.eval_steps)
        execution, self.shapes = scoring.compilation(strategy, run, model.config, data.dev, self.times)
        self.call = forward.make_prediction_call(strategy, model, execution, data.task.family.make_answers(run))
        self.metric = data.task.metrics[0]
        self.average: dict[str, Any] = {}
        # A resumed run repeats steps. Only the chief deletes the old rows of these steps, and another process may read
        # the file earlier.
        self.history = [
            (row["step"], row[f"eval_{self.metric}"])
            for row in reporting.read_metrics(workdir)
            if f"eval_{self.metric}" in row and row["step"] <= first_step
        ]
        best = checkpoints.best_checkpoints(workdir)
        earlier = [each for each in best if checkpoints.step_of(each) <= first_step]
        # Runs of an earlier version may have lost the best weights of earlier steps. Then later ones are better than
        # none. If not, the chief removes the later ones, and no process reads them.
        if self.history and not earlier:
            earlier = best
        elif self.chief:
            checkpoints.forget_best(workdir, after=first_step)
        self.kept = self._about(earlier[-1]) if earlier else None

    def _about(self, directory):
        """What `kept` says about best weights; None if they are damaged or have no score."""
        try:
            manifest = checkpoints.read_manifest(directory, verify=False)
        except UserError:
            return None
        score = manifest.get("figures", {}).get(f"eval_{self.metric}")
        return None if score is None else (manifest["step"], reporting.as_written(score), "mean_of_steps" in manifest)

    def logits(
        self, features: Features, should_stop: Callable[[], bool] = lambda: False, times: int = 1
    ) -> np.ndarray | list[np.ndarray] | None:
        """The logits of each unit, or None after a stop.

        Args:
            features: Features.
            should_stop: Function that the method calls before each batch. True stops the evaluation.
            times: int. How often the run computes these logits.
        """
        return predicting.unit_logits(
            self.call,
            self.model,
            features,
            self.run,
            self.run.global_batch_size,
            should_stop,
            times=times,
            **self.shapes,
        )

    def decoded(self, examples: list, features: Features, logits, run: FinetuningConfig | None = None) -> list[dict]:
        """The predictions for examples.

        Args:
            examples: list of the family's examples.
            features: Features of these examples.
            logits: The logits of each unit.
            run: FinetuningConfig with the settings for decode; by default the configuration of the run.
        """
        return self.data.task.family.decode(
            self.data.task, examples, features, logits, run or self.run, self.data.labels
        )

    def tuned_predictions(self, logits) -> tuple[list[dict], dict[str, Any]]:
        """The predictions for the dev examples, with the fields that were tuned on them.

        Args:
            logits: The logits of each unit of the dev examples.

        Returns:
            (predictions, dict of the tuned fields of FinetuningConfig without the fields that the user set).
        """
        task, examples = self.data.task, self.data.dev_examples
        predictions = self.decoded(examples, self.data.dev, logits)
        if not task.tune:
            return predictions, {}
        best = task.tune(examples, predictions)
        fields = {
            name: value for name, value in best.items() if getattr(self.run, name) == getattr(type(self.run), name)
        }
        return self.decoded(examples, self.data.dev, logits, dataclasses.replace(self.run, **fields)), fields

    def evaluate(self, step: int, should_stop: Callable[[], bool]) -> dict[str, float]:
        """Scores the model, and keeps its weights if the score is higher than that of the kept weights.

        Args:
            step: int. The number of steps so far.
            should_stop: Function that the method calls before each batch. True stops the evaluation.

        Returns:
            dict of eval_* figures; {} after a stop.
        """
        scores = self._scores(should_stop)
        if scores is None:
            return {}
        figures = {f"eval_{name}": float(value) for name, value in scores.items()}
        earlier_scores = [score for at, score in self.history if at < step]
        score = reporting.as_written(scores[self.metric])  # a resumed run reads rounded scores
        is_best = self._is_best(step, score, False)
        if is_best and self.chief:
            checkpoints.save_best(self.workdir, self.model, step, figures)
        strategies.wait_for_all(self.strategy)  # from here on, every process may read the best weights
        self.reporter.write(step, figures)
        self.reporter.say(
            f"step {step:,}: dev {_shown(scores)}" + (" (the best so far)" if is_best and earlier_scores else "")
        )
        self.history = [(at, score) for at, score in self.history if at < step] + [(step, score)]
        return figures

    def evaluate_average(self) -> None:
        """Scores the mean of the newest checkpoints at the end of a run, and keeps it if it is the best.

        The model has the mean afterwards.
        """
        directories = checkpoints.list_checkpoints(self.workdir)[-self.run.average_checkpoints :]
        steps = [checkpoints.read_manifest(directory, verify=False)["step"] for directory in directories]
        if len(directories) < 2:
            self.reporter.say(
                f"--average_checkpoints={self.run.average_checkpoints}: the run has only one checkpoint; lower "
                "--save_checkpoints_steps"
            )
            return
        checkpoint_averages.load_mean(directories, self.model)
        scores = self._scores()
        score, last_step = reporting.as_written(scores[self.metric]), steps[-1]
        is_best = self._is_best(last_step, score, True)
        if is_best and self.chief:
            figures = {f"eval_{name}": float(value) for name, value in scores.items()}
            checkpoints.save_best(self.workdir, self.model, last_step, figures, steps)
        strategies.wait_for_all(self.strategy)
        self.average = {"steps": steps, "score": score}
        self.reporter.say(
            f"mean of the checkpoints of steps {', '.join(f'{step:,}' for step in steps)}: dev {_shown(scores)}"
            + (" (the best so far)" if is_best else "")
        )

    def _is_best(self, *about):
        """Whether weights are better than the kept ones, or are the same. Then they are the kept ones from now on."""
        is_best = self.kept is None or about[1] > self.kept[1] or about == self.kept
        if is_best:
            self.kept = about
        return is_best

    def _scores(self, should_stop=lambda: False):
        """dict metric -> score of the model on the dev examples; None after a stop."""
        data = self.data
        logits = self.logits(data.dev, should_stop, self.times)
        if logits is None:
            return None
        predictions, _ = self.tuned_predictions(logits)
        return data.task.family.score(data.task, data.dev_examples, predictions, data.labels)

    def best_step(self) -> int:
        """The first step with the best score."""
        return max(self.history, key=lambda entry: (entry[1], -entry[0]))[0]

    def ends_early(self) -> bool:
        """Whether the last early_stopping evaluations brought no better score."""
        return bool(self.run.early_stopping and self.history) and self._since_the_best() >= self.run.early_stopping

    def _since_the_best(self):
        """The number of evaluations after the best step."""
        return sum(step > self.best_step() for step, _ in self.history)

    def early_end(self) -> str:
        """The log line of a run that ends early."""
        return (
            f"ended early at step {self.history[-1][0]:,}: {self._since_the_best()} evaluations without a better "
            f"score than that of step {self.best_step():,}; --early_stopping=0 continues"
        )


def _shown(scores):
    """The scores as text."""
    return ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
