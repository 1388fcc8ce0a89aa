"""Pre-training: from a Start to a trained checkpoint."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from keras_bert_app.modeling import carried_states
from keras_bert_app.modeling.architectures import make_pretrainer
from keras_bert_app.training import (
    evaluation,
    forward,
    initialization,
    loop,
    outlook,
    pretraining_corpora,
    pretraining_data,
    reporting,
    strategies,
    tpu,
)
from keras_bert_app.training.compilation import inference_execution
from keras_bert_app.training.language_model_objective import (
    BidirectionalObjective,
    LanguageModelObjective,
    LstmObjective,
)
from keras_bert_app.training.losses import PretrainingObjective
from keras_bert_app.training.optimizers import choice
from keras_bert_app.training.pace import Reached
from keras_bert_app.training.start import Start


def pretrain(start: Start) -> dict[str, float]:
    """Runs or resumes a pre-training, up to its num_train_steps or train_minutes.

    Args:
        start: Start whose data are PretrainingCorpora.

    Returns:
        dict of the last evaluation's figures.

    Raises:
        UserError: the checkpoint, the weights or the text cannot be used.
        Interrupted: SIGINT or SIGTERM came, and the run is saved.
    """
    run, strategy = start.run, start.strategy
    examples = pretraining_data.example_arguments(run, start.tokenizer, pretraining_data.lexicon_of(start.workdir))
    objective = _make_objective(start, examples, start.data.num_train_documents)

    # 1. model and optimizer, with their first values
    model, optimizer = _make_model(start)
    state, origin = initialization.initialize(start, model, optimizer)
    if start.existing.has_begun:
        pretraining_data.check_stream(state, start.existing.checkpoints[-1])

    # 2. the output for people
    reporter = reporting.make_reporter(start, state, objective, _draw)
    for line in _opening_lines(start, model, origin, examples["lexicon"]):
        reporter.say(line)

    # 3. batches and held-out text
    heldout = _HeldoutEvaluation(start, model, examples, reporter, state["step"])
    reached = Reached()
    batches = _make_batches(start, state, examples, reached)

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
        outlook=lambda *now: outlook.lines(start, *now),
        reached=reached,
    )
    figures = loop.train(training)
    _, length = pretraining_data.batch_shape_at(run, max(0, heldout.reached_step - 1), reached.share)
    if length < run.max_seq_length:
        name = "length_ramp_share" if run.length_ramp_share else "length_ramp_steps"
        reporter.say(
            f"the run ended within --{name}={getattr(run, name)}: positions from {length} on were not trained; "
            f"continue with a smaller --{name}, or with more time"
        )
    return figures


def _opening_lines(start, model, origin, lexicon):
    yield strategies.describe(start.strategy, start.run)
    counted = start.model_config if start.model_config.architecture == "bert" else None  # the estimate knows no gpt
    yield from tpu.advice(start.strategy, start.run, counted)
    yield f"{model.count_params():,} parameters; {origin}"
    if start.token_source is not None:
        yield start.token_source.line
    yield from pretraining_corpora.remarks(start.data, start.run)
    yield from pretraining_data.unused_phrases(lexicon)
    yield from outlook.unfinished_warmup(start.run)


def _draw(rows, title):
    from keras_bert_app.drawing.curves import draw_curves  # only the end of a run needs it

    return draw_curves(rows, title)


def _make_batches(start, state, examples, reached):
    """The iterator of training batches from a state on."""
    return pretraining_data.training_batches(
        start.run,
        start.data.train_shards,
        start.tokenizer,
        state["position"],
        examples,
        state["step"],
        lambda: reached.share,
        is_stream=start.run.carries_state(start.model_config),
    )


def _make_objective(start, examples, num_documents):
    """The objective of a run, for text with a number of documents."""
    if start.run.language_model == "masked":
        return PretrainingObjective(start.run.sentence_objective, num_documents)
    counted = functools.partial(pretraining_data.ngram_counts, start.data.train_shards, start.tokenizer, examples)
    if start.model_config.architecture == "gpt":
        return LanguageModelObjective(functools.cache(counted))
    is_bidirectional = start.run.language_model == "bidirectional"
    return (BidirectionalObjective if is_bidirectional else LstmObjective)(functools.cache(counted))


def _make_model(start):
    """(model, Optimizer) with their initial values, on the strategy's devices."""
    run, config = start.run, start.model_config
    with start.strategy.scope():
        model = make_pretrainer(config, run.seed, strategies.KERAS_POLICIES[run.precision], run.trained_parts())
        if run.position_initializer == "sinusoidal":
            initialization.begin_with_sines(model)
        if config.architecture == "lstm_lm":
            initialization.begin_with_characters(model, start.tokenizer)
        if start.token_source is not None:
            start.token_source.assign(model)
        if run.carries_state(config):
            model.carried_states = tf.Variable(
                tf.zeros([pretraining_data.most_rows(run), carried_states.width(config)]),
                trainable=False,
                name="carried_states",
            )
        trainable = {variable.path: variable.value for variable in model.trainable_variables}
        return model, choice.make_optimizer(run, trainable, config.num_hidden_layers)


class _HeldoutEvaluation:
    """Evaluations on the held-out text of a run.

    Attributes:
        reached_step: the step of the last call of evaluate; before the first call, the step at the start.
    """

    def __init__(self, start: Start, model: Any, examples: dict, reporter, step: int):
        run = start.run
        self.run, self.reporter, self.reached_step = run, reporter, step
        self.objective = _make_objective(start, examples, start.data.num_heldout_documents)
        self.vocab_size = start.model_config.vocab_size
        self.dataset = pretraining_data.heldout_dataset(run, start.data.heldout_shards, start.tokenizer, examples)
        execution = inference_execution(run, start.strategy, is_worth=start.execution.compiles_parts)
        self.call = forward.make_evaluation_call(start.strategy, model, self.objective, execution)

    def evaluate(self, step: int, should_stop: Callable[[], bool]) -> dict[str, float]:
        """Evaluates and reports. Returns the figures; {} if there is nothing to evaluate."""
        self.reached_step = step
        if self.dataset is None:
            return {}
        figures = evaluation.evaluate(
            self.call, self.objective, self.dataset, self.vocab_size, self.run.max_eval_steps, should_stop
        )
        if should_stop():
            return figures
        if not evaluation.num_predictions(figures):
            self.reporter.say("the held-out documents give no example, so nothing was evaluated")
            return {}
        self.reporter.write(step, figures)
        for line in evaluation.summary(figures, self.run.sentence_objective):
            self.reporter.say(line)
        return figures
