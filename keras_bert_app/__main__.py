"""The entry point: `python -m keras_bert_app VERB --flag=value`, or `keras-bert-app VERB`."""

import importlib.metadata
import runpy
import sys

from keras_bert_app.errors import nearest
from keras_bert_app.terminal import screen

# The verbs, grouped by the goal of the user. Each is the module keras_bert_app.cli.VERB.
VERBS = {
    "try it out": {
        "demo": "train and question a small BERT on the documentation of the installed packages",
    },
    "prepare text": {
        "learn_vocab": "learn a WordPiece vocabulary from text files",
        "check_vocab": "check a vocabulary, and report how it splits your text",
        "extend_vocab": "add the words of a domain to a vocabulary",
        "tokenize": "split texts into word pieces",
        "prepare_corpus": "turn text files into shuffled shards without duplicates",
        "inspect_data": "show pre-training examples and their statistics",
    },
    "train": {
        "estimate": "estimate memory, time and cost of a pre-training before you start it",
        "pretrain": "pre-train a BERT, a GPT or LSTMs on text",
        "finetune": "fine-tune a model on a task with labelled examples",
        "launch_workers": "run a training command as several processes on this machine",
    },
    "use a model": {
        "evaluate": "score a fine-tuned run on other labelled files",
        "predict": "answer files without labels, or raw texts",
        "ask": "ask an exported model about texts",
        "fill_mask": "fill in the [MASK]s of a text",
        "generate": "continue a text",
        "embed": "compute vectors of texts",
        "learn_vectors": "learn a vector for each word of a text",
        "nearest_words": "show the nearest words of words, and score analogies",
        "mine_negatives": "add hard negatives to pairs of texts, for finetune --task=similarity",
        "search": "find the texts that are nearest to a query",
        "index_vectors": "build an index of vectors, for a faster search",
        "evaluate_search": "score the search of a model on judged queries, beside BM25",
        "map_vectors": "draw a map of the vectors of texts, with nearest texts, before and after training",
        "analyze": "look into an encoder, from attention maps to probes",
    },
    "move and serve a model": {
        "convert": "convert weights between this package, Google, Hugging Face, KerasHub and Model Garden",
        "export": "write SavedModels that take raw text",
        "serve": "serve SavedModels over HTTP",
    },
}


def main() -> None:
    """Runs the verb in sys.argv[1]. Without a verb, or with --help, lists all verbs."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in ("--help", "-help", "-h", "help"):
        with screen.until_reader_leaves():
            print(overview())
        return
    if name in ("--version", "version"):
        try:
            print(importlib.metadata.version("keras_bert_app"))
        except importlib.metadata.PackageNotFoundError:
            print("not installed: these are the sources", file=sys.stderr)
        return
    verbs = [verb for group in VERBS.values() for verb in group]
    if name not in verbs:
        print(f"error: {name!r} is not a verb: {nearest(name, verbs)}; give no verb to list them all", file=sys.stderr)
        sys.exit(2)
    module = f"keras_bert_app.cli.{name}"
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def overview() -> str:
    """Returns the list of all verbs, grouped by goal."""
    width = max(len(verb) for group in VERBS.values() for verb in group)
    lines = ["usage: keras-bert-app VERB [--flag=value ...]", "       keras-bert-app VERB --help"]
    for goal, verbs in VERBS.items():
        lines += ["", f"To {goal}:", *(f"  {verb:{width}}  {summary}" for verb, summary in verbs.items())]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
