"""Where the examples come from: a run, exactly as its trainer gets them, or a corpus and a vocabulary."""

import contextlib
import typing

import tensorflow as tf

from keras_bert_app.config.bert_config import BertConfig
from keras_bert_app.config.pretraining_config import PretrainingConfig
from keras_bert_app.errors import UserError
from keras_bert_app.files import read_json
from keras_bert_app.runs import checkpoints, work_directory
from keras_bert_app.training import pretraining_data
from pipelines.corpus import preparation
from pipelines.examples import mixing
from pipelines.examples.dataset import FIRST_POSITION
from pipelines.wordpiece.tokenizer import BertTokenizer


class Source(typing.NamedTuple):
    """What the batches are made of.

    Attributes:
        run: PretrainingConfig, resolved. tokenizer: BertTokenizer. shards: {corpus directory: its training shards}.
        arguments: of data.example_arguments. checkpoints: {step: position}, where a start is known.
    """

    run: PretrainingConfig
    tokenizer: BertTokenizer
    shards: dict
    arguments: dict
    checkpoints: dict


def from_run(workdir):
    """The Source of the run in a work directory.

    Raises:
        UserError, DataError: the corpus, the vocabulary or the lexicon is missing, or not the one the run began with.
    """
    model_config, run, _ = work_directory.read_config(workdir)
    run = run.resolved()
    work_directory.read_vocabulary(workdir)
    tokenizer = BertTokenizer(work_directory.path_in(workdir, "vocab.txt"), model_config.do_lower_case)
    manifests = _manifests(run.corpus_dir or (work_directory.path_in(workdir, "corpus"),))
    _check_same_corpus(workdir, manifests)
    starts = {}
    for directory in checkpoints.list_checkpoints(workdir):
        with contextlib.suppress(UserError):  # one that is damaged, or just being deleted: a place less to start from
            manifest = checkpoints.read_manifest(directory, verify=False)
            starts[manifest["step"]] = tuple(manifest["position"])
    return Source(
        run,
        tokenizer,
        _train_shards(manifests),
        pretraining_data.example_arguments(run, tokenizer, pretraining_data.lexicon_of(workdir)),
        starts,
    )


def from_corpora(run, vocab_file, do_lower_case):
    """The Source of run.corpus_dir (one directory or several) with a vocabulary."""
    run = run.resolved().checked_against(BertConfig(max_position_embeddings=run.max_seq_length))
    tokenizer = BertTokenizer(vocab_file, do_lower_case)
    return Source(
        run,
        tokenizer,
        _train_shards(_manifests(run.corpus_dir)),
        pretraining_data.example_arguments(run, tokenizer, run.lexicon_file),
        {},
    )


def nearest_start(source, step):
    """(step, position) of the last checkpoint that is not after a step, or of the beginning."""
    return max(
        ((known, position) for known, position in source.checkpoints.items() if known <= step),
        default=(0, first_position(source)),
    )


def batches(source, position, step):
    """Yields (batch of numpy arrays, position after it) as training goes on from a position, reached after `step` steps."""
    for batch, after in pretraining_data.training_batches(
        source.run, list(source.shards.values()), source.tokenizer, position, source.arguments, step
    ):
        yield {name: values.numpy() for name, values in batch.items()}, after


def first_position(source):
    """Where the stream of examples begins."""
    return FIRST_POSITION if len(source.shards) == 1 else mixing.first_position(len(source.shards))


def checked_position(source, position):
    """The position, or UserError if the stream has no such place."""
    expected = first_position(source)
    names = "epoch,block,offset" if len(expected) == 3 else "examples" + ",epoch,block,offset" * len(source.shards)
    given = ",".join(map(str, position))
    if len(position) != len(expected) or min(position) < 0:
        raise UserError(
            f"--position={given}: expected {len(expected)} numbers of 0 or more, {names}, as in the "
            "manifest.json of a checkpoint"
        )
    for block, (directory, shards) in zip(position[-2::-3][::-1], source.shards.items()):
        if block >= len(shards):
            raise UserError(
                f"--position={given}: names block {block}; expected less than {len(shards)}, the shards of {directory}"
            )
    return position


def _manifests(corpus_dirs):
    # Sizes are compared, contents are not: the trainer does that, and a look should be quick.
    return {directory: preparation.load_manifest(directory, verify=False) for directory in corpus_dirs}


def _train_shards(manifests):
    return {
        directory: preparation.shard_paths(directory, manifest, "train") for directory, manifest in manifests.items()
    }


def _check_same_corpus(workdir, manifests):
    path = work_directory.path_in(workdir, "corpus.json")
    if not tf.io.gfile.exists(path):
        return
    known = read_json(path).get("shards")
    found = [
        [shard["file"], shard["sha256"]]
        for manifest in manifests.values()
        for split in ("train", "heldout")
        for shard in manifest[split]["shards"]
    ]
    if known is not None and known != found:
        raise UserError(
            f"{', '.join(manifests)}: holds another corpus than the run in --workdir={workdir} began with; "
            "put that corpus back"
        )
