"""Pre-training: from a resolved configuration and a prepared work directory to a trained checkpoint."""

from keras_bert_app.config.bert_config import PARTS
from keras_bert_app.drawing.curves import draw_curves
from keras_bert_app.interop import load
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.runs import work_directory
from keras_bert_app.runs.shared_tokenizer import run_tokenizer
from keras_bert_app.training import (
    evaluation,
    forward,
    initialization,
    loop,
    pretraining_data,
    reporting,
    steps,
    strategies,
    tpu,
)
from keras_bert_app.training.losses import PretrainingObjective
from keras_bert_app.training.optimizers import choice


def pretrain(workdir, corpora, heldout_shards, strategy=None, run=None, stream=None, initial=None):
    """Runs or resumes the pre-training that WORKDIR/config.json describes, up to its num_train_steps or train_minutes.

    Order of initialization: the newest checkpoint of the work directory, else the weights of init_checkpoint, else from
    scratch.

    Args:
        workdir: holds config.json and vocab.txt (runs.workdir.write_config).
        corpora: for each corpus its TFRecord files of pipelines.corpus.preparation. heldout_shards: the same, of all; may be empty.
        strategy: tf.distribute.Strategy, or None for the one that the configuration names.
        run: PretrainingConfig in place of the one in config.json.
        stream: where progress goes; standard output by default.
        initial: what init_checkpoint holds, as interop.load.load_weights gives it; read from there by default.

    Returns:
        dict of the last evaluation's figures.

    Raises:
        UserError: something does not fit; Interrupted: SIGINT or SIGTERM came, the run is saved.
    """
    model_config, saved_run, _ = work_directory.read_config(workdir)
    run = run or saved_run
    strategy = strategy or strategies.make_strategy(run.strategy)
    run = strategies.with_compilation(strategies.with_precision(run, strategy), strategy)
    pretraining_data.check_ramps(run, strategy)
    tokenizer = run_tokenizer(work_directory.read_vocabulary(workdir), model_config.do_lower_case)
    objective = PretrainingObjective(run.sentence_objective)

    with strategy.scope():
        model = BertPretrainer(
            model_config, seed=run.seed, dtype=strategies.KERAS_POLICIES[run.precision], parts=trained_parts(run)
        )
        if run.position_initializer == "sinusoidal":
            initialization.begin_with_sines(model)
        trainable = {variable.path: variable.value for variable in model.trainable_variables}
        optimizer = choice.make_optimizer(run, trainable, model_config.num_hidden_layers)
    if run.init_checkpoint and initial is None and not work_directory.has_checkpoint(workdir):
        initial = load.load_weights(run.init_checkpoint, allow_missing=run.parts_not_needed())
    start, origin = initialization.initialize(workdir, run, model, optimizer, len(steps.columns(objective)), initial)
    start, note = pretraining_data.upgraded(start)
    reporter = reporting.Reporter(
        workdir,
        start["step"],
        start["seconds"],
        run,
        objective,
        draw_curves,
        active=strategies.is_chief(strategy),
        stream=stream,
    )
    for line in (strategies.describe(strategy, run), *tpu.advice(strategy, run, model_config)):
        reporter.say(line)
    reporter.say(f"{model.count_params():,} parameters; {origin}{note}")

    examples = pretraining_data.example_arguments(run, tokenizer, pretraining_data.lexicon_of(workdir))
    heldout = pretraining_data.heldout_dataset(run, heldout_shards, tokenizer, examples)
    if heldout is None:
        reporter.say(
            "no documents are held out, so nothing will be evaluated; --holdout_fraction keeps some where text is prepared"
        )
    compiled = forward.forward_compilation(strategy, run, is_worth=run.jit_compile == "parts")
    evaluation_call = forward.make_evaluation_call(strategy, model, objective, compiled)

    reached = start["step"]

    def evaluate(step, should_stop):
        nonlocal reached
        reached = step
        if heldout is None:
            return {}
        figures = evaluation.evaluate(
            evaluation_call, objective, heldout, model_config.vocab_size, run.max_eval_steps, should_stop
        )
        if should_stop():
            return figures
        if not figures["eval_masked_lm_count"]:
            reporter.say("no example can be made of the documents that are held out, so nothing was evaluated")
            return {}
        reporter.write(step, figures)
        for line in evaluation.summary(figures, run.sentence_objective):
            reporter.say(line)
        return figures

    batches = pretraining_data.training_batches(run, corpora, tokenizer, start["position"], examples, start["step"])
    figures = loop.train(
        loop.Training(workdir, run, strategy, model, optimizer, objective, batches, evaluate, start, reporter)
    )
    _, length = pretraining_data.batch_shape_at(run, max(0, reached - 1))
    if length < run.max_seq_length:
        reporter.say(
            f"the run ended within --length_ramp_steps={run.length_ramp_steps}: positions from {length} on were not "
            "trained; give it fewer of these steps, or more time"
        )
    return figures


def trained_parts(run):
    """The parts of a model that a run trains, and so has: without sentence pairs nothing teaches the pooler."""
    return ("encoder", "masked_lm") if run.sentence_objective == "none" else PARTS
