"""From what was asked for to one fine-tuning run, or one for each of several seeds."""

import dataclasses
import functools
import os

import tensorflow as tf

from keras_bert_app.config.finetuning_config import FinetuningConfig
from keras_bert_app.errors import NotFinite, UserError
from keras_bert_app.files import read_json
from keras_bert_app.interop import load, own_layout, surgery
from keras_bert_app.interop.hub import is_handle
from keras_bert_app.runs import checkpoints, seeds, work_directory
from keras_bert_app.tasks import mlm_tuning, pruned_runs, registry, results, transfer
from keras_bert_app.tasks.finetune import finetune
from keras_bert_app.training import strategies
from pipelines.wordpiece import casing
from pipelines.wordpiece.vocabulary import checked_pieces

# What --init_checkpoint may lack: the heads of pre-training are not used, and a pooler can be learned.
_NOT_NEEDED = ("pooler", "masked_lm", "next_sentence")


def launch(workdir, wanted, num_seeds=1, start=(None, False, None, None), stream=None):
    """Starts or resumes the runs of a work directory.

    Args:
        wanted: dict of the fields of FinetuningConfig that were asked for; the task's defaults and then the general ones
            fill in the rest. num_seeds: how many runs; several live in WORKDIR/seed-N.
        start: (init_checkpoint, whether its weights are taken, BertConfig, vocabulary bytes); the latter two in place of
            the former, and of a run that goes on they have to be its own. stream: where progress goes; standard output by default.

    Returns:
        dict of results: of the run, or over the seeds.

    Raises:
        UserError: something does not fit; Interrupted: a signal came, the run is saved.
    """
    _check_as_many_seeds(workdir, num_seeds)
    init_checkpoint, takes_weights, model_config, vocabulary = start
    if init_checkpoint and not takes_weights:
        wanted = {**wanted, "init_checkpoint": ""}
    first_seed = _first_seed(workdir, wanted, num_seeds)
    directories = {
        seed: workdir if num_seeds == 1 else os.path.join(workdir, f"seed-{seed}")
        for seed in range(first_seed, first_seed + num_seeds)
    }
    started = {seed: directory for seed, directory in directories.items() if work_directory.is_started(directory)}
    for directory in started.values():
        pruned_runs.check_not_pruned(directory)
        work_directory.read_config(directory, FinetuningConfig)  # raises where it is no run of this kind
    # A start that never came to a checkpoint may be begun anew by a whole command.
    if wanted.get("task") and wanted.get("data_dir") and (init_checkpoint or model_config):
        started = {seed: directory for seed, directory in started.items() if work_directory.has_checkpoint(directory)}
    initial = None
    if started:
        # The runs that were begun say how those that were not are to be.
        seed, directory = next(iter(started.items()))
        model_config, run = _resumed(directory, wanted, seed if num_seeds > 1 else None, start)
        vocabulary, settings = work_directory.read_vocabulary(directory), run.to_dict()
    else:
        settings = {**_task_defaults(wanted), **wanted}
        if init_checkpoint:
            initial = _load(init_checkpoint, settings.get("encoder_layers", -1), settings["task"])
            model_config, vocabulary = initial[0].config, initial[0].vocabulary
        elif model_config is None:
            raise UserError(
                "--init_checkpoint is missing; give a pre-trained model, or --config and --vocab_file for one "
                "from scratch"
            )
        else:
            model_config = _with_lowest_layers(model_config, settings.get("encoder_layers", -1))
        initial = initial if takes_weights else None
    # The devices are found once: TensorFlow does not let go of them.
    strategy = strategies.make_strategy(settings.get("strategy", "auto"))
    found, teacher = [], transfer.Teacher(strategy, stream)
    for seed, directory in directories.items():
        if seed in started:
            _, run = _resumed(directory, wanted, seed if num_seeds > 1 else None, start)
        else:
            run = FinetuningConfig(**{**settings, "seed": seed}).checked_against(model_config)
            run.check_read(() if started else wanted)
        has_begun = work_directory.has_checkpoint(directory)
        if initial is None and run.init_checkpoint and not has_begun:
            initial = _load(run.init_checkpoint, run.encoder_layers, run.task)
        start_of_seed = initial
        if run.mlm_tuning_steps and not has_begun:
            start_of_seed = functools.partial(
                mlm_tuning.tuned,
                os.path.join(workdir, "mlm_tuning"),
                run,
                model_config,
                vocabulary,
                initial,
                strategy,
                stream,
            )
        try:
            found.append(finetune(directory, model_config, run, vocabulary, start_of_seed, strategy, stream, teacher))
        except NotFinite as error:
            if num_seeds == 1:
                raise
            # That a seed fails so is a result, too; the others can still be learned.
            print(f"seed {seed}: {error}", file=stream, flush=True)
            found.append({"seed": seed, "failed": str(error)})
    if num_seeds == 1:
        return found[0]
    figures = results.over_seeds(found)
    if strategies.is_chief(strategy):
        results.write_json(os.path.join(workdir, "results.json"), figures)
    for line in results.seeds_summary(figures):
        print(line, file=stream, flush=True)
    return figures


def _first_seed(workdir, wanted, num_seeds):
    """The seed that was asked for, or with which the runs of a directory began, or the default."""
    if "seed" in wanted or num_seeds == 1 or not work_directory.exists(workdir):
        return wanted.get("seed", FinetuningConfig.seed)
    return min(map(int, _seeds_of(workdir)), default=FinetuningConfig.seed)


def _seeds_of(workdir):
    """The seeds, as text, whose runs live in a directory."""
    # On object stores names of directories end in a slash.
    names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(workdir))
    return [
        name.removeprefix("seed-")
        for name in names
        if name.startswith("seed-") and name[5:].isdecimal() and work_directory.is_started(os.path.join(workdir, name))
    ]


def _check_as_many_seeds(workdir, num_seeds):
    """Raises UserError where runs of several seeds would share a directory, and its results.json, with a lone one."""
    if num_seeds > 1 and work_directory.is_started(workdir):
        raise UserError(f"--num_seeds={num_seeds}: --workdir={workdir} holds a run of one seed; give another --workdir")
    is_new = num_seeds == 1 and work_directory.exists(workdir) and not work_directory.is_started(workdir)
    if seeds := _seeds_of(workdir) if is_new else ():
        raise UserError(
            f"--workdir={workdir}: holds runs of several seeds ({', '.join(f'seed-{seed}' for seed in seeds)}); give "
            "--num_seeds=2 or more to go on with them, or another --workdir"
        )


def _resumed(directory, wanted, seed, start):
    """(BertConfig, FinetuningConfig) of the run in a directory.

    Args:
        seed: one of several, each its own; None for a lone run's. start: as of launch.
    """
    _, _, model_config, vocabulary = start
    if model_config is not None:
        _, run, _ = work_directory.read_config(directory, FinetuningConfig)
        model_config = _with_lowest_layers(model_config, run.encoder_layers)
    return work_directory.check_resumable(
        directory,
        model_config,
        wanted if seed is None else {**wanted, "seed": seed},
        vocabulary,
        run_class=FinetuningConfig,
    )


def _with_lowest_layers(model_config, count):
    """A BertConfig with so many of its lowest layers; -1 for all. Raises UserError where it has fewer."""
    if count > model_config.num_hidden_layers:
        raise UserError(
            f"--encoder_layers={count}: the encoder has {model_config.num_hidden_layers}; give so many at most, or -1"
        )
    return model_config if count < 0 else model_config.replace(num_hidden_layers=count)


def _task_defaults(wanted):
    """What a task has in place of the general defaults.

    Raises:
        UserError: no task or no data is named.
    """
    if not wanted.get("task"):
        raise UserError("--task is missing; --list_tasks names all")
    if not wanted.get("data_dir"):
        raise UserError("--data_dir is missing; it is the directory of the task's files")
    return registry.find(wanted["task"]).defaults


def _load(init_checkpoint, num_layers, task):
    """(Weights, lines) of a start; of a run of several seeds the best one's, and of another task without the output layer."""
    directory = init_checkpoint if is_handle(init_checkpoint) else seeds.best(init_checkpoint)
    weights, lines = load.load_weights(directory, allow_missing=_NOT_NEEDED)
    earlier = _task_of(directory)
    if (weights.task or weights.own_head) and earlier and not registry.answer_alike(earlier, task):
        lines.append(f"  left out: the output layer, of task {earlier}")
        weights = _without_output_layer(weights)
    elif not earlier:  # it is not known what its head has learned
        weights = dataclasses.replace(weights, own_head=None)
        if weights.task and not transfer.says_what_it_answers(weights, registry.find(task)):
            lines.append(
                f"  left out: the output layer, which does not say what it answers ({', '.join(weights.labels[:6]) or 'no labels'})"
            )
            weights = _without_output_layer(weights)
    if num_layers >= 0 and num_layers != weights.config.num_hidden_layers:
        weights, line = surgery.lowest_layers(weights, num_layers)
        weights = dataclasses.replace(weights, own_head=None)  # it may stand on layers that are no more
        lines.append(f"  {line}")
    if weights.vocabulary is None:
        raise UserError(
            f"--init_checkpoint={init_checkpoint}: has no vocabulary; put its vocab.txt beside the weights, or "
            "convert it with --vocab_file"
        )
    casing.verify(
        checked_pieces(weights.vocabulary, f"of {init_checkpoint}"),
        weights.config.do_lower_case,
        f"of {init_checkpoint}",
    )
    return weights, lines


def _without_output_layer(weights):
    kept = {path: tensor for path, tensor in weights.tensors.items() if not path.startswith("classifier/")}
    return dataclasses.replace(weights, tensors=kept, task="", labels=(), problem_type="", own_head=None)


def _task_of(directory):
    """The task that a run of ours has learned; "" where it is none."""
    if is_handle(directory) or not own_layout.recognizes(directory):
        return ""
    run_directory, _ = checkpoints.find(directory)
    return read_json(work_directory.path_in(run_directory, "config.json")).get(FinetuningConfig.KEY, {}).get("task", "")
