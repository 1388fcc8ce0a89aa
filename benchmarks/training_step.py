"""The training step beside the peers', in one run: the same weights, the same batch, the same work.

python -m benchmarks.training_step --steps=small:32:128:float32,small:32:128:bfloat16 \
    --model_garden_python=.venv-model-garden/bin/python --transformers_python=.venv-peers/bin/python

An entry of --steps is SIZE:ROWS:LENGTH:PRECISION, SIZE a published one or LAYERSxHIDDEN. A step is forward, backward, clipping
at a global norm of 1 and AdamW, with dropout 0.1, 15 % of the positions predicted and the vocabulary of bert-base-uncased's size.
All contenders start from the same weights and must agree on the loss without dropout. Each is a process of its own; they take
turns, round after round. A figure is the median of all steps, a ratio that of the rounds' medians. Contenders:

- ours, with --jit_compile=none, parts and step;
- KerasHub's backbone and heads in the train function of fit, with jit_compile off and on;
- Model Garden's BertPretrainerV2 in its task's way, with and without jit_compile on forward and backward;
- transformers' BertForPreTraining on torch, as its Trainer takes a step.

Results go to OUTPUT_DIR/training_step.json, .md and .png; a step that is there is not measured again. The peers' environments
are those of `make bench`.
"""

import contextlib
import os
import statistics
import sys
import tempfile

import numpy as np
from absl import flags

from benchmarks import turns
from benchmarks.peer_process import PeerProcess
from benchmarks.random_batches import random_batch
from benchmarks.resumable import results_of
from benchmarks.tokenizer_peers import machine
from keras_bert_app.cli import app
from keras_bert_app.config import SIZES, BertConfig
from keras_bert_app.errors import UserError
from keras_bert_app.pretraining_config import PretrainingConfig
from keras_bert_app.training_config import COMPILATIONS

_STEPS = flags.DEFINE_list("steps", [
    "tiny:32:128:float32", "mini:32:128:float32", "small:32:128:float32", "medium:16:128:float32", "base:8:128:float32",
    "tiny:32:128:bfloat16", "mini:32:128:bfloat16", "small:32:128:bfloat16", "medium:16:128:bfloat16", "base:8:128:bfloat16",
    "small:8:512:float32", "small:8:512:bfloat16"], "Steps to measure, SIZE:ROWS:LENGTH:PRECISION.")
_PEERS = flags.DEFINE_list("peers", ["keras_hub", "model_garden", "transformers"], "Peers to measure beside.")
_OURS = flags.DEFINE_list("ours", ["none", "parts", "step"], "What --jit_compile is, of ours.")
_PYTHONS = {
    "model_garden": flags.DEFINE_string("model_garden_python", ".venv-model-garden/bin/python",
                                        "Interpreter with benchmarks/requirements-model-garden.txt."),
    "transformers": flags.DEFINE_string("transformers_python", ".venv-peers/bin/python",
                                        "Interpreter with benchmarks/requirements-hf.txt.")}
_ROUNDS = flags.DEFINE_integer("rounds", 5, "Turns of each contender.", lower_bound=1)
_SECONDS = flags.DEFINE_float("seconds", 5, "About, of each in a turn; 1 step at least.", lower_bound=0.0)
_OUTPUT_DIR = flags.DEFINE_string("output_dir", "runs/bench", "Where results go.")

# Contender -> (script, versions, what is compiled).
_VERSIONS = {"keras_hub": {"keras-hub": "0.32.0"}, "model_garden": {"tf-models-official": "2.20.0", "tensorflow": "2.21.0"},
             "transformers": {"transformers": "5.23.0", "torch": "2.13.0"}, "ours": {}}
_COMPILED = {"keras_hub": ("none", "step"), "model_garden": ("none", "step"), "transformers": ("none",)}
_VOCABULARY, _LEARNING_RATE = 30_522, 1e-4
# Relative, of the loss without dropout. KerasHub has another gelu in the encoder than in the head.
_AGREEMENT = {"float32": 1e-3, "bfloat16": 5e-3}


def main(arguments):
    del arguments
    configs = {step: parsed(step) for step in _STEPS.value}
    if not configs or not _OURS.value:
        raise UserError("--steps and --ours: expected one entry each at least")
    for compiled in _OURS.value:
        if compiled not in COMPILATIONS:
            raise UserError(f"--ours={compiled} is not known; expected of {', '.join(COMPILATIONS)}")
    for peer in _PEERS.value:
        if peer not in _COMPILED:
            raise UserError(f"--peers={peer} is not known; expected of {', '.join(_COMPILED)}")
        if peer in _PYTHONS and not os.path.exists(_PYTHONS[peer].value):
            raise UserError(f"--{peer}_python={_PYTHONS[peer].value}: there is no such file; `make bench` builds that environment, "
                            f"or leave the peer out of --peers")
    os.environ.update(TF_ENABLE_ONEDNN_OPTS="1", TF_CPP_MIN_LOG_LEVEL="3")  # the peers' best too
    path = os.path.join(_OUTPUT_DIR.value, "training_step")
    done = results_of(_STEPS.value, lambda step: measured(*configs[step]), f"{path}.json")
    lines = [", ".join(f"{name} {value}" for name, value in machine(("tensorflow", "keras", "keras-hub")).items()), "",
             *table(done)]
    print("\n" + "\n".join(lines))
    with open(f"{path}.md", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    draw(done, f"{path}.png")


def parsed(step):
    """(BertConfig, rows, length, precision) of an entry of --steps."""
    try:
        size, rows, length, precision = step.split(":")
        if size in SIZES:
            config = BertConfig.of_size(size, vocab_size=_VOCABULARY)
        else:
            layers, hidden = (int(number) for number in size.split("x"))
            if layers < 1 or hidden < 64 or hidden % 64:  # heads of 64
                raise ValueError
            config = BertConfig(vocab_size=_VOCABULARY, hidden_size=hidden, num_hidden_layers=layers,
                                num_attention_heads=hidden // 64, intermediate_size=4 * hidden)
        if precision not in _AGREEMENT or int(rows) < 1 or not 1 < int(length) <= config.max_position_embeddings:
            raise ValueError
        return config, int(rows), int(length), precision
    except ValueError:
        raise UserError(f"--steps={step}: expected SIZE:ROWS:LENGTH:PRECISION, such as small:32:128:float32 or 4x384:8:64:bfloat16, "
                        f"SIZE of {', '.join(SIZES)} or LAYERSxHIDDEN in 64s, at most 512 tokens") from None


def measured(config, rows, length, precision):
    """dict contender -> figures."""
    contenders = [("ours", compiled) for compiled in _OURS.value]
    contenders += [(peer, compiled) for peer in _PEERS.value for compiled in _COMPILED[peer]]
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        request = {"precision": precision, "learning_rate": _LEARNING_RATE, "batch_file": os.path.join(directory, "batch.npz")}
        np.savez(request["batch_file"], **batch_of(config, rows, length))
        directories = write_weights(config, directory)
        figures, peers = {}, {}
        for who, compiled in contenders:
            name = f"{who} {compiled}"
            python = _PYTHONS[who].value if who in _PYTHONS else sys.executable
            peers[name] = PeerProcess(python, f"training_step_{who}.py", f"{who}_python", _VERSIONS[who])
            stack.callback(peers[name].close)
            figures[name] = peers[name].ask(**request, directory=directories[who], compiled=compiled)
            print(f"  {name}: loss {figures[name]['loss']:.4f}, first step after {figures[name]['seconds_to_first_step']:.1f} s",
                  flush=True)
        disagreeing(figures, precision)
        counts = {name: max(1, round(_SECONDS.value / peer.ask(num_steps=1)["seconds"][0])) for name, peer in peers.items()}
        for _ in range(_ROUNDS.value):
            for name, peer in peers.items():
                answer = peer.ask(num_steps=counts[name])
                figures[name].setdefault("rounds", []).append(answer["seconds"])
                figures[name]["resident_bytes"] = answer["resident_bytes"]
    return figures


def disagreeing(figures, precision):
    """Raises UserError where the losses of one computation differ."""
    expected = figures["ours none" if "ours none" in figures else next(iter(figures))]["loss"]
    for name, found in figures.items():
        if abs(found["loss"] / expected - 1) > _AGREEMENT[precision]:
            raise UserError(f"{name} computes a loss of {found['loss']:.5f} where ours is {expected:.5f}; expected the same within "
                            f"{_AGREEMENT[precision]:g}: not the same work, so that no time is told")


def batch_of(config, rows, length):
    """A batch of full rows, dict of arrays."""
    run = PretrainingConfig(global_batch_size=rows, max_seq_length=length, max_predictions_per_seq=max(1, round(0.15 * length)))
    with app.quiet_start():
        return {name: values.numpy() for name, values in random_batch(config, run).items()}


def write_weights(config, directory):
    """The same random weights in each contender's layout: dict contender -> directory."""
    with app.quiet_start():
        from keras_bert_app.interop import load
        from keras_bert_app.interop.weights import Weights, shapes
    generator = np.random.RandomState(2)
    fills = {"gamma": np.ones, "beta": np.zeros, "bias": np.zeros, "output_bias": np.zeros}
    tensors = {path: (fills[path.split("/")[-1]](shape) if path.split("/")[-1] in fills
                      else generator.normal(0, config.initializer_range, shape)).astype(np.float32)
               for path, shape in shapes(config).items()}
    weights, found = Weights(config, tensors, origin="random"), {}
    for layout, readers in (("huggingface", ("ours", "keras_hub", "transformers")), ("model_garden", ("model_garden",))):
        place = os.path.join(directory, layout)
        load.write_weights(weights, layout, place)
        found |= {reader: place for reader in readers}
    return found


def summary(figures):
    """(contender -> median milliseconds, fastest peer, our fastest, ratio of theirs by ours as turns.ratio has it or None)."""
    medians = {name: turns.median(found["rounds"]) * 1e3 for name, found in figures.items()}
    ours = min((name for name in medians if name.startswith("ours")), key=medians.get)
    peers = [name for name in medians if not name.startswith("ours")]
    if not peers:
        return medians, None, ours, None
    peer = min(peers, key=medians.get)
    return medians, peer, ours, turns.ratio(figures[peer]["rounds"], figures[ours]["rounds"])


def table(done):
    """Markdown: for each step a line a contender."""
    yield "| step | contender | compiled | ms (lowest - highest of the rounds) | tokens/s | loss | first step, s | resident, GB |"
    yield "|---|---|---|---|---|---|---|---|"
    ratios = []
    for step, figures in done.items():
        medians, peer, ours, ratio = summary(figures)
        _, rows, length, _ = step.split(":")
        for name, found in figures.items():
            rounds = [statistics.median(seconds) * 1e3 for seconds in found["rounds"]]
            who, compiled = name.split()
            yield (f"| {step} | {who} | {compiled} | {medians[name]:,.0f} ({min(rounds):,.0f} - {max(rounds):,.0f}) | "
                   f"{int(rows) * int(length) / medians[name] * 1e3:,.0f} | {found['loss']:.4f} | "
                   f"{found['seconds_to_first_step']:.1f} | {found['resident_bytes'] / 1e9:.2f} |")
        if ratio:
            ratios.append(f"{step}: {ours} is {ratio[0]:.2f} ({ratio[1]:.2f} - {ratio[2]:.2f}) times as fast as {peer}, the fastest peer")
    yield ""
    yield from ratios


def draw(done, path):
    """Bars of every contender, a panel a step."""
    from keras_bert_app.drawing.figures import picture

    columns = min(3, len(done))
    lines = -(-len(done) // columns)
    with picture(4.6 * columns, 0.6 + 2.4 * lines, "A training step beside the peers'\nmilliseconds, less is better") as (figure, image):
        grid = figure.subplots(lines, columns, squeeze=False).ravel()
        for axes in grid[len(done):]:
            axes.set_visible(False)
        for axes, (step, figures) in zip(grid, done.items()):
            medians = summary(figures)[0]
            axes.set_title(step)
            bars = axes.barh(list(medians), medians.values(), color=["C0" if name.startswith("ours") else "C7" for name in medians])
            axes.bar_label(bars, fmt="{:,.0f}", padding=3)
            axes.invert_yaxis()
            axes.margins(x=0.18)
    with open(path, "wb") as file:
        file.write(image.getvalue())


if __name__ == "__main__":
    app.run(main, __doc__)
