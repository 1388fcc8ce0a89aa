"""Compares the time of sentence vectors from the local server with the time of the same signature in this process.

python -m benchmarks.serving.server_overhead --saved_model=saved_models/NAME

The server is the serve command as a process of its own. The client keeps one HTTP connection. A figure is the median of
all calls. In each round the benchmark divides the median of the server by that of this process. A ratio is the
median of these quotients. Before the benchmark times a size, it checks that both contenders give the same vectors.
"""

import http.client
import json
import os
import tempfile

from absl import flags

from benchmarks.common import count_flags
from benchmarks.common.report import draw_bars, in_words, keep
from benchmarks.common.this_machine import machine
from benchmarks.common.turns import in_turn, median, milliseconds, ratio, texts_of, timed
from keras_bert_app.cli.common import app

flags.DEFINE_string("saved_model", "", "A SavedModel that the command export wrote with --kind=embeddings.")
_BATCHES = count_flags.define("batches", [1, 32], "Batch sizes.")
_TOKENS = count_flags.define("tokens", [16, 128], "Tokens of each text, [CLS] and [SEP] included.")
_ROUNDS = flags.DEFINE_integer("rounds", 7, "Number of rounds, in which both contenders run in turn.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 1.0, "Approximate seconds of a contender in a round.", lower_bound=0.01)
_OUTPUT_FILE = flags.DEFINE_string(
    "output_file", "", "JSON file for all figures. The table and the picture are written beside it."
)

_LARGEST_DIFFERENCE = 1e-5
_HEAD = "| batch x tokens | in process p50 | served p50 | served / in process | added |"


def main(arguments):
    del arguments
    (saved_model,) = app.required("saved_model")
    with app.quiet_start():
        import numpy as np
        import tensorflow as tf

        from benchmarks.serving import serving_models
        from keras_bert_app.export import saved_models
    figures, lines = {"machine": machine(("tensorflow",)), "rows": []}, [_HEAD, "|---" * 5 + "|"]
    print("\n".join([in_words(figures["machine"]), "", *lines]), flush=True)
    embed, directory = saved_models.load(saved_model).signatures["serving_default"], saved_models.find(saved_model)
    with (
        tempfile.TemporaryDirectory() as logs,
        serving_models.running(os.path.dirname(directory.rstrip("/")), os.path.join(logs, "serve.log")) as server,
    ):
        connection = http.client.HTTPConnection("127.0.0.1", server.port)

        def ask(texts):
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/v1/models/small:predict", json.dumps({"instances": texts}), headers)
            return np.array([row["embedding"] for row in json.loads(connection.getresponse().read())["predictions"]])

        contenders = {"served": ask, "in process": lambda texts: embed(text=tf.constant(texts))["embedding"].numpy()}
        for batch in _BATCHES.value:
            for tokens in _TOKENS.value:
                texts = texts_of(os.path.join(directory, "vocab.txt"), batch, tokens)
                difference = abs(np.subtract(*(run(texts) for run in contenders.values()))).max()
                if not difference <= _LARGEST_DIFFERENCE:
                    raise SystemExit(
                        f"the vectors of server and process differ by {difference:.2g} at {batch} x {tokens}; "
                        f"expected at most {_LARGEST_DIFFERENCE:g}"
                    )
                seconds = in_turn(
                    {name: timed(run, texts) for name, run in contenders.items()}, _ROUNDS.value, _SECONDS.value
                )
                figures["rows"].append(
                    {"batch": batch, "tokens": tokens, "difference": float(difference), "seconds": seconds}
                )
                lines.append(line_of(figures["rows"][-1]))
                print(lines[-1], flush=True)
    keep(_OUTPUT_FILE.value, figures, lines, lambda path: draw(figures["rows"], path))


def line_of(row: dict) -> str:
    """Formats a row as a line of the table.

    Args:
        row: dict. An entry of figures["rows"], with batch, tokens and seconds.
    """
    served, in_process = row["seconds"]["served"], row["seconds"]["in process"]
    served_ms, in_process_ms = median(served) * 1e3, median(in_process) * 1e3
    middle, low, high = ratio(served, in_process)
    return (
        f"| {row['batch']} x {row['tokens']} | {in_process_ms:.2f} ms | {served_ms:.2f} ms "
        f"| {middle:.2f} ({low:.2f} to {high:.2f}) | {served_ms - in_process_ms:.2f} ms |"
    )


def draw(rows: list[dict], path: str) -> None:
    """Draws bars of both contenders, a panel for each batch size and number of tokens.

    Args:
        rows: list of dict. The entries of figures["rows"].
        path: str. File to write.
    """
    panels = {
        f"{row['batch']} x {row['tokens']}": {name: milliseconds(rounds) for name, rounds in row["seconds"].items()}
        for row in rows
    }
    draw_bars(
        panels,
        "What the server adds, batch x tokens\nmilliseconds, less is better",
        path,
        lambda name: name == "served",
    )


if __name__ == "__main__":
    app.run(main, __doc__)
