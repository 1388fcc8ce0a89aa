"""Continues texts with a pre-trained model.

python -m keras_bert_app.cli.generate --workdir=runs/gpt "The history of the city"
python -m keras_bert_app.cli.generate --workdir=runs/gpt --temperature=0 --max_new_tokens=20 "The history of the city"

A GPT reads from left to right and can end a text. A BERT also works, but slowly and less well: it fills in one [MASK]
after the other at the end of the text. On a terminal the text appears while it is written.
"""

import os
import sys

from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError

flags.DEFINE_string("workdir", "", "Work directory of a pre-training, or a model in any layout that convert reads.")
_MAX_NEW_TOKENS = flags.DEFINE_integer("max_new_tokens", 100, "Most pieces of a continuation.", lower_bound=1)
_TEMPERATURE = flags.DEFINE_float(
    "temperature",
    0.8,
    "Divides the logits before a draw, at most 100; 0 takes the most probable piece.",
    lower_bound=0.0,
    upper_bound=100.0,
)
_TOP_K = flags.DEFINE_integer("top_k", 0, "Draw one of this many most probable pieces; 0: of all.", lower_bound=0)
_TOP_P = flags.DEFINE_float(
    "top_p", 0.95, "Draw one of the most probable pieces that have this probability together; 1: of all."
)
_PENALTY = flags.DEFINE_float(
    "repetition_penalty", 1.1, "Makes pieces that the text has already less probable; 1: no penalty."
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the draws.", lower_bound=0, upper_bound=(1 << 31) - 1)
_NUM_TEXTS = flags.DEFINE_integer("num_texts", 1, "Continuations of each text, with seeds that follow.", lower_bound=1)


def main(texts: list[str]) -> None:
    (workdir,) = app.required("workdir")
    if not texts:
        raise UserError('no text was given; write it after the flags: generate --workdir=DIR "The history of"')
    if not 0.0 < _TOP_P.value <= 1.0:
        raise UserError(f"--top_p={_TOP_P.value}: expected more than 0 and at most 1")
    if not 0.0 < _PENALTY.value <= 100.0:
        raise UserError(f"--repetition_penalty={_PENALTY.value}: expected more than 0 and at most 100")
    if not 0.0 <= _TEMPERATURE.value <= 100.0:
        raise UserError(f"--temperature={_TEMPERATURE.value}: expected 0 to 100")
    for name in ("top_k", "top_p", "seed", "num_texts"):
        if not _TEMPERATURE.value and flags.FLAGS[name].present:
            raise UserError(
                f"--{name}={flags.FLAGS[name].value}: is for draws, but --temperature=0 always takes the most probable "
                f"piece; leave out --{name}, or give a temperature above 0"
            )
    with app.quiet_start():
        from keras_bert_app.export.text_stream import GenerationOptions, TextStream
    options = GenerationOptions(_MAX_NEW_TOKENS.value, _TEMPERATURE.value, _TOP_K.value, _TOP_P.value, _PENALTY.value)
    stream = TextStream(workdir, options)
    for text in texts:
        for number in range(_NUM_TEXTS.value):
            _print_text(text, stream.continued(os.fsencode(text), (_SEED.value + number) % (1 << 31), _warn))


def _warn(line):
    print(line, file=sys.stderr, flush=True)


def _print_text(text, parts):
    """Prints a text and its continuation. A terminal shows each part at once."""
    shown = os.fsencode(text).decode("utf-8", "replace")
    if not sys.stdout.isatty():
        print(shown + "".join(parts))
        return
    print(shown, end="", flush=True)
    for part in parts:
        print(part, end="", flush=True)
    print()


if __name__ == "__main__":
    app.run(main, __doc__, is_listing=True, takes_arguments=True)
