"""Scores of a model on the dev examples while it is trained, and which of its weights are kept."""

from keras_bert_app.runs import checkpoints
from keras_bert_app.tasks import predicting, scoring
from keras_bert_app.training import forward, reporting, strategies


class Scorer:
    """Evaluates a model on the dev examples, keeps the best weights, and knows when to end.

    Attributes:
        history: list of (step, score by the task's first metric).
    """

    def __init__(self, workdir, data, run, model, strategy, reporter, first_step):
        self.workdir, self.data, self.run, self.model, self.reporter = workdir, data, run, model, reporter
        self.strategy, self.chief = strategy, strategies.is_chief(strategy)
        self.times = max(1, run.num_train_steps // run.eval_steps)
        compiled, self.shapes = scoring.compilation(strategy, run, model.config, data.dev, self.times)
        self.call = forward.make_prediction_call(strategy, model, compiled)
        self.metric = data.task.metrics[0]
        # Only the chief drops the rows of steps that are taken again, and others may read before it does.
        self.history = [
            (row["step"], row[f"eval_{self.metric}"])
            for row in reporting.read_metrics(workdir)
            if f"eval_{self.metric}" in row and row["step"] <= first_step
        ]

    def logits(self, features, should_stop=lambda: False, times=1):
        """The logits of each unit, or None when stopped. Args: times: how often they will be asked for."""
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

    def decoded(self, examples, features, logits, run=None):
        """Predictions for examples; run: in place of the run's FinetuningConfig."""
        return self.data.task.family.decode(
            self.data.task, examples, features, logits, run or self.run, self.data.labels
        )

    def evaluate(self, step, should_stop):
        """dict of eval_* figures; the weights are kept if none scored better before."""
        data = self.data
        logits = self.logits(data.dev, should_stop, self.times)
        if logits is None:
            return {}
        found = self.decoded(data.dev_examples, data.dev, logits)
        scores = data.task.family.score(data.task, data.dev_examples, found, data.labels)
        figures = {f"eval_{name}": float(value) for name, value in scores.items()}
        earlier = [score for at, score in self.history if at < step]
        score = reporting.as_written(scores[self.metric])  # as a resumed run reads it
        is_best = not earlier or score > max(earlier)
        if is_best and self.chief:
            checkpoints.save_best(self.workdir, self.model, step, figures)
        strategies.wait_for_all(self.strategy)  # who reads the best weights next finds them written
        self.reporter.write(step, figures)
        self.reporter.say(
            f"step {step:,}: dev "
            + ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
            + (" (the best so far)" if is_best and earlier else "")
        )
        self.history = [(at, score) for at, score in self.history if at < step] + [(step, score)]
        return figures

    def best_step(self):
        """The first step whose score none has passed."""
        return max(self.history, key=lambda entry: (entry[1], -entry[0]))[0]

    def ends_early(self):
        """Whether so many evaluations have passed without a better score."""
        return bool(self.run.early_stopping and self.history) and self._since_the_best() >= self.run.early_stopping

    def _since_the_best(self):
        return sum(step > self.best_step() for step, _ in self.history)

    def early_end(self):
        """What to say of a run that ended so."""
        return (
            f"ended early at step {self.history[-1][0]:,}: {self._since_the_best()} evaluations without a better score than that of step "
            f"{self.best_step():,}; --early_stopping=0 goes on"
        )
