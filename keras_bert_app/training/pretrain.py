"""Pre-training: from a Start to a trained checkpoint."""

from collections.abc import Callable
from typing import Any

from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.training import (
    evaluation,
    forward,
    initialization,
    loop,
    pretraining_data,
    reporting,
    strategies,
    tpu,
)
from keras_bert_app.training.compilation import inference_execution
from keras_bert_app.training.losses import PretrainingObjective
from keras_bert_app.training.optimizers import choice
from keras_bert_app.training.start import Start


def pretrain(start: Start) -> dict[str, float]:
    """Runs or resumes a pre-training, up to its num_train_steps or train_minutes.

    Args:
        start: Start whose data are PretrainingCorpora.

    Returns:
        dict of the last evaluation's figures.

    Raises:
        UserError: something does not fit.
        Interrupted: SIGINT or SIGTERM came, and the run is saved.
    """
    run, strategy = start.run, start.strategy
    objective = PretrainingObjective(run.sentence_objective)

    # 1. model and optimizer, with their first values
    model, optimizer = _make_model(start)
    state, origin = initialization.initialize(start, model, optimizer)
    if start.existing.has_begun:
        pretraining_data.check_stream(state, start.existing.checkpoints[-1])

    # 2. what people read
    reporter = reporting.make_reporter(start, state, objective, _draw)
    for line in (strategies.describe(strategy, run), *tpu.advice(strategy, run, start.model_config)):
        reporter.say(line)
    reporter.say(f"{model.count_params():,} parameters; {origin}")

    # 3. batches and held-out text
    examples = pretraining_data.example_arguments(run, start.tokenizer, pretraining_data.lexicon_of(start.workdir))
    heldout = _HeldoutEvaluation(start, model, objective, examples, reporter, state["step"])
    batches = pretraining_data.training_batches(
        run, start.data.train_shards, start.tokenizer, state["position"], examples, state["step"]
    )

    # 4. the loop
    training = loop.Training(
        start.workdir,
        run,
        strategy,
        model,
        optimizer,
        objective,
        start.execution,
        batches,
        heldout.evaluate,
        state,
        reporter,
    )
    figures = loop.train(training)
    _, length = pretraining_data.batch_shape_at(run, max(0, heldout.reached_step - 1))
    if length < run.max_seq_length:
        reporter.say(
            f"the run ended within --length_ramp_steps={run.length_ramp_steps}: positions from {length} on were not "
            "trained; give it fewer of these steps, or more time"
        )
    return figures


def _draw(rows, title):
    from keras_bert_app.drawing.curves import draw_curves  # at the end of a run

    return draw_curves(rows, title)


def _make_model(start):
    """(BertPretrainer, Optimizer) with their initial values, on the strategy's devices."""
    run, config = start.run, start.model_config
    with start.strategy.scope():
        model = BertPretrainer(
            config, seed=run.seed, dtype=strategies.KERAS_POLICIES[run.precision], parts=run.trained_parts()
        )
        if run.position_initializer == "sinusoidal":
            initialization.begin_with_sines(model)
        trainable = {variable.path: variable.value for variable in model.trainable_variables}
        return model, choice.make_optimizer(run, trainable, config.num_hidden_layers)


class _HeldoutEvaluation:
    """Evaluations on the held-out text of a run.

    Attributes:
        reached_step: the step of the last evaluation that was asked for, or of the start.
    """

    def __init__(self, start: Start, model: Any, objective: Any, examples: dict, reporter, step: int):
        run = start.run
        self.run, self.objective, self.reporter, self.reached_step = run, objective, reporter, step
        self.vocab_size = start.model_config.vocab_size
        self.dataset = pretraining_data.heldout_dataset(run, start.data.heldout_shards, start.tokenizer, examples)
        if self.dataset is None:
            reporter.say(
                "no documents are held out, so nothing will be evaluated; --holdout_fraction keeps some where text is "
                "prepared"
            )
        execution = inference_execution(run, start.strategy, is_worth=start.execution.compiles_parts)
        self.call = forward.make_evaluation_call(start.strategy, model, objective, execution)

    def evaluate(self, step: int, should_stop: Callable[[], bool]) -> dict[str, float]:
        """The figures of an evaluation, which are reported too; {} where there is nothing to evaluate."""
        self.reached_step = step
        if self.dataset is None:
            return {}
        figures = evaluation.evaluate(
            self.call, self.objective, self.dataset, self.vocab_size, self.run.max_eval_steps, should_stop
        )
        if should_stop():
            return figures
        if not figures["eval_masked_lm_count"]:
            self.reporter.say("no example can be made of the documents that are held out, so nothing was evaluated")
            return {}
        self.reporter.write(step, figures)
        for line in evaluation.summary(figures, self.run.sentence_objective):
            self.reporter.say(line)
        return figures
