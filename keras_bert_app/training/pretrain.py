"""Pre-training: from a resolved configuration and a prepared work directory to a trained checkpoint."""

import collections
import signal
import time

import numpy as np
import tensorflow as tf

from keras_bert_app.errors import Interrupted, UserError
from keras_bert_app.modeling.pretrainer import BertPretrainer
from keras_bert_app.training import checkpoints, evaluation, losses, reporting, steps
from keras_bert_app.training import strategy as strategies
from keras_bert_app.training import workdir as workdirs
from keras_bert_app.training.optimizers import AdamWeightDecay
from pipelines.pretraining import FIRST_POSITION, pretraining_dataset
from pipelines.wordpiece import BertTokenizer

KERAS_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


def pretrain(workdir, train_shards, heldout_shards, strategy=None, run=None, stream=None):
    """Runs or resumes the pre-training that WORKDIR/config.json describes, up to its num_train_steps.

    Order of initialization: the newest checkpoint of the work directory, else the weights of init_checkpoint, else from
    scratch.

    Args:
        workdir: holds config.json and vocab.txt (training.workdir.write_config).
        train_shards, heldout_shards: TFRecord files of pipelines.corpus; the latter may be empty.
        strategy: tf.distribute.Strategy, or None for the one that the configuration names.
        run: PretrainingConfig in place of the one in config.json.
        stream: where progress goes; standard output by default.

    Returns:
        dict of the last evaluation's figures.

    Raises:
        UserError: something does not fit; Interrupted: SIGINT or SIGTERM came, the run is saved.
    """
    model_config, saved_run, _ = workdirs.read_config(workdir)
    run = run or saved_run
    strategy = strategy or strategies.make_strategy(run.strategy)
    strategies.check_batch_size(strategy, run.global_batch_size)
    chief = strategies.is_chief(strategy)
    workdirs.read_vocabulary(workdir)
    tokenizer = BertTokenizer(workdirs.path_in(workdir, "vocab.txt"), model_config.do_lower_case)

    with strategy.scope():
        model = BertPretrainer(model_config, seed=run.seed, dtype=KERAS_POLICIES[run.precision])
        trainable = {variable.path: variable.value for variable in model.trainable_variables}
        optimizer = AdamWeightDecay(trainable, run.weight_decay_rate, run.adam_beta_1, run.adam_beta_2,
                                    run.adam_epsilon)
    step, position, unlogged, origin = _initialize(workdir, run, model, optimizer)
    reporter = reporting.Reporter(workdir, step, run.num_train_steps, active=chief, stream=stream)
    reporter.say(strategies.describe(strategy, run))
    reporter.say(f"{model.count_params():,} parameters; {origin}")

    data = dict(global_batch_size=run.global_batch_size, max_seq_length=run.max_seq_length,
                max_predictions_per_seq=run.max_predictions_per_seq, masked_lm_prob=run.masked_lm_prob,
                short_seq_prob=run.short_seq_prob, seed=run.seed)
    heldout = pretraining_dataset(heldout_shards, tokenizer, **data, epochs=1) if heldout_shards else None
    if heldout is None:
        reporter.say("no documents are held out, so nothing will be evaluated; --holdout_fraction keeps some")
    evaluation_call = steps.make_evaluation_call(strategy, model)

    def evaluate(should_stop):
        if heldout is None:
            return {}
        figures = evaluation.evaluate(evaluation_call, heldout, model_config.vocab_size, run.max_eval_steps, should_stop)
        if not should_stop():
            reporter.write(step, figures)
            for line in evaluation.summary(figures):
                reporter.say(line)
        return figures

    def save():
        if chief:
            checkpoints.save(workdir, model, optimizer, step, position, run.keep_checkpoints, window.rows)

    train_call = steps.make_train_call(strategy, model, optimizer, run)
    per_call = strategies.iterations_per_loop(strategy, run.iterations_per_loop)
    batches = iter(pretraining_dataset(train_shards, tokenizer, **data, position=position, with_position=True)) \
        if step < run.num_train_steps else None
    figures, window = None, _Window(unlogged)
    with _Signals() as signals:
        while step < run.num_train_steps:
            # 1. k global batches and the position after them
            stack = [next(batches) for _ in range(min(per_call, run.num_train_steps - step))]
            stacked = {name: tf.stack([batch[name] for batch, _ in stack]) for name in stack[0][0]}
            # 2. k steps on the devices
            rows = train_call(stacked, step)
            _check_finite(rows, step)
            before, step = step, step + len(stack)
            position = stack[-1][1].numpy().tolist()
            # 3. what people watch
            window.add(rows, stacked["input_mask"])
            reporter.live(step, window.recent())

            def due(interval):
                return step // interval > before // interval or step >= run.num_train_steps
            if due(run.log_steps):
                reporter.log(step, window.close())
            # 4. keep and evaluate
            if due(run.save_checkpoints_steps) or signals.received:
                save()
            if due(run.eval_steps) and not signals.received:
                figures = evaluate(lambda: signals.received)
                if signals.received:
                    save()
                window.restart_clock()
            if signals.received:
                raise Interrupted(signals.received, step, chief)
        if figures is None:  # a run that was finished before
            figures = evaluate(lambda: signals.received)
            if signals.received:
                raise Interrupted(signals.received, step, chief)
    return figures


def _initialize(workdir, run, model, optimizer):
    """(step, position, sums of steps not yet logged, a line that says where the weights come from)."""
    saved = checkpoints.list_checkpoints(workdir)
    if saved:
        manifest = checkpoints.restore(saved[-1], model, optimizer)
        return (manifest["step"], tuple(manifest["position"]), manifest["unlogged"],
                f"resumed at step {manifest['step']:,} from {saved[-1]}")
    if run.init_checkpoint:
        _, checkpoint = checkpoints.find(run.init_checkpoint)
        checkpoints.restore(checkpoint, model)
        return 0, FIRST_POSITION, [], f"all {len(model.weights)} weights from {checkpoint}, optimizer and steps new"
    return 0, FIRST_POSITION, [], f"from scratch, seed {run.seed}"


def _check_finite(rows, first_step):
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if bad.size:
        raise UserError(f"step {first_step + bad[0] + 1}: the loss or gradient is not finite; begin in another --workdir "
                        "with a lower --learning_rate or more --num_warmup_steps, from --init_checkpoint if you like")


class _Window:
    """Sums since the last log line, and the clock that tokens a second are measured by."""

    def __init__(self, rows):
        self.rows = list(rows)
        self.latest = collections.deque(maxlen=50)
        self.restart_clock()

    def restart_clock(self):
        self.started, self.timed_tokens = time.monotonic(), 0

    def add(self, rows, input_mask):
        self.rows.extend(rows)
        self.latest.extend(rows)
        self.timed_tokens += int(tf.reduce_sum(input_mask))

    def recent(self):
        return self._figures(list(self.latest))

    def close(self):
        figures = self._figures(self.rows)
        self.rows = []
        self.restart_clock()
        return figures

    def _figures(self, rows):
        values = np.asarray(rows, np.float64)
        sums = dict(zip(steps.STEP_METRICS, values.sum(axis=0).tolist()))
        return {**losses.metrics(sums), "learning_rate": values[-1, steps.STEP_METRICS.index("learning_rate")],
                "gradient_norm": values[:, steps.STEP_METRICS.index("gradient_norm")].mean(),
                "tokens_per_second": self.timed_tokens / max(time.monotonic() - self.started, 1e-9)}


class _Signals:
    """While active, SIGINT and SIGTERM are noted instead of acted on; a second one changes nothing."""

    def __enter__(self):
        self.received = 0
        self.previous = {}
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                self.previous[number] = signal.signal(number, self._note)
        except ValueError:
            pass  # not the main thread: whoever runs us there handles signals
        return self

    def _note(self, number, frame):
        self.received = self.received or number

    def __exit__(self, *exception):
        for number, handler in self.previous.items():
            signal.signal(number, handler)
