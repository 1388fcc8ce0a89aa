"""google-research/bert's create_pretraining_data, for pretraining_statistics and pretraining_throughput.

reference_answers runs this script in an environment with benchmarks/requirements-google.txt. It imports only
google-research/bert, the requirements of that package and the standard library.

A request has input_files, vocab_file, do_lower_case, max_seq_length, max_predictions_per_seq, masked_lm_prob,
short_seq_prob, dupe_factor and seed. With arrays_file, the script writes the instances of create_training_instances to
that file (see _arrays). Without arrays_file, the script does everything that Google's main does, and writes a TFRecord
file. In the answer, seconds and cpu_seconds cover the work from opening the text until this file is closed, or with
arrays_file until the instances are made.
"""

import os
import random
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from absl import flags
from bert import create_pretraining_data, tokenization

PACKAGES = ("bert-tensorflow",)
flags.FLAGS(sys.argv[:1])  # the tokenizer reads the flag preserve_unused_tokens, whose default is off


def _instances(request, tokenizer):
    return create_pretraining_data.create_training_instances(
        request["input_files"],
        tokenizer,
        request["max_seq_length"],
        request["dupe_factor"],
        request["short_seq_prob"],
        request["masked_lm_prob"],
        request["max_predictions_per_seq"],
        random.Random(request["seed"]),
    )


def _arrays(instances, tokenizer, max_seq_length, max_predictions_per_seq):
    """The model's inputs and labels as arrays.

    Returns:
        dict of int32: input_word_ids, input_type_ids [N, S], lengths [N], masked_lm_positions, masked_lm_ids [N, P],
        num_masked [N], next_sentence_labels [N].
    """
    num_rows = len(instances)
    wide, narrow = (num_rows, max_seq_length), (num_rows, max_predictions_per_seq)
    shapes = {
        "input_word_ids": wide,
        "input_type_ids": wide,
        "lengths": (num_rows,),
        "masked_lm_positions": narrow,
        "masked_lm_ids": narrow,
        "num_masked": (num_rows,),
        "next_sentence_labels": (num_rows,),
    }
    arrays = {name: np.zeros(shape, np.int32) for name, shape in shapes.items()}
    for row, instance in enumerate(instances):
        length, masked = len(instance.tokens), len(instance.masked_lm_positions)
        arrays["input_word_ids"][row, :length] = tokenizer.convert_tokens_to_ids(instance.tokens)
        arrays["input_type_ids"][row, :length] = instance.segment_ids
        arrays["lengths"][row] = length
        arrays["masked_lm_positions"][row, :masked] = instance.masked_lm_positions
        arrays["masked_lm_ids"][row, :masked] = tokenizer.convert_tokens_to_ids(instance.masked_lm_labels)
        arrays["num_masked"][row] = masked
        arrays["next_sentence_labels"][row] = instance.is_random_next
    return arrays


def answer(request):
    """The answer to a request; see the module's docstring."""
    tokenizer = tokenization.FullTokenizer(request["vocab_file"], do_lower_case=request["do_lower_case"])
    started, cpu_before = time.perf_counter(), time.process_time()
    instances = _instances(request, tokenizer)
    if "arrays_file" in request:
        seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_before
        np.savez(
            request["arrays_file"],
            **_arrays(instances, tokenizer, request["max_seq_length"], request["max_predictions_per_seq"]),
        )
    else:
        with tempfile.TemporaryDirectory() as directory:
            create_pretraining_data.write_instance_to_example_files(
                instances,
                tokenizer,
                request["max_seq_length"],
                request["max_predictions_per_seq"],
                [os.path.join(directory, "examples.tfrecord")],
            )
            seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_before
    return {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "examples": len(instances),
        "real_tokens": sum(len(instance.tokens) for instance in instances),
        "labels": sum(len(instance.masked_lm_positions) for instance in instances),
    }
