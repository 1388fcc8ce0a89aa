"""Checks on the host that the arrays of all batches for a TPU have one shape and the type int32 or float32."""

import dataclasses
import itertools
import os
import tempfile

from benchmarks.tpu import tpu_examples
from benchmarks.tpu.tpu_programs import Program, pretraining_run, pretraining_specs
from keras_bert_app.tasks import batches
from keras_bert_app.training import pretraining_data
from pipelines.choices import MASKINGS, OBJECTIVES
from pipelines.corpus import preparation
from pipelines.examples.dataset import pretraining_dataset

_NUM_BATCHES = 3


def check():
    """Checks the batches of all maskings with all objectives, and of all heads.

    Yields:
        (name, whether something is wrong, line to print).
    """
    tokenizer = tpu_examples.tokenizer()
    with tempfile.TemporaryDirectory() as directory:
        shards = _shards(directory)
        lexicon_file = os.path.join(directory, "lexicon.txt")
        with open(lexicon_file, "w", encoding="utf-8") as file:
            file.write("green hills\nold songs\n")
        usual = pretraining_run(Program("pretrain", "tiny", 128, "bfloat16", 8))
        for masking, objective in itertools.product(MASKINGS, OBJECTIVES):
            run = dataclasses.replace(
                usual,
                masking=masking,
                sentence_objective=objective,
                lexicon_file=lexicon_file if masking == "lexicon" else "",
            )
            arguments = pretraining_data.example_arguments(run, tokenizer, lexicon_file)
            # Check the last batch of a pass too, because a fault might make it smaller.
            dataset = pretraining_dataset(
                shards, tokenizer, global_batch_size=run.global_batch_size, epochs=1, **arguments
            )
            all_batches = list(dataset)
            yield _judged(
                f"batches of {masking}, {objective}",
                all_batches[:_NUM_BATCHES] + all_batches[-1:],
                pretraining_specs(run),
                dataset.element_spec,
            )
    for head in tpu_examples.HEADS:
        _, _, run, features = tpu_examples.finetuning(head, max_seq_length=128, global_batch_size=3)
        first_batches = [batch for batch, _ in itertools.islice(batches.training_batches(features, run), _NUM_BATCHES)]
        yield _judged(f"batches of {head}", first_batches, first_batches[0], first_batches[0])


def _judged(name, some_batches, expected, element_spec):
    """Compares batches, and the element_spec from which a TPU program is compiled, with the expected arrays."""
    faults = {
        f"{key} {values.dtype.name} {values.shape}"
        for batch in (*some_batches, element_spec)
        for key, values in batch.items()
        if key not in expected
        or values.shape != expected[key].shape
        or values.dtype != expected[key].dtype
        or not values.shape.is_fully_defined()
        or values.dtype.name not in ("int32", "float32")
    }
    if faults:
        return name, True, f"WRONG: {', '.join(sorted(faults))}"
    return name, False, f"{len(some_batches)} batches, {len(expected)} arrays each: static shapes, int32, float32"


def _shards(directory):
    shards = os.path.join(directory, "corpus")
    manifest = preparation.prepare_corpus(
        shards, documents=iter(tpu_examples.documents()), holdout_fraction=0.0, num_shards=2
    )
    return preparation.shard_paths(shards, manifest, "train")
