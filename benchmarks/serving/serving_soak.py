"""Tests the local server under overload with swaps of versions (R9) and under requests of random content (R10).

python -m benchmarks.serving.serving_soak --directory=runs/serving_soak

R9: 256 clients send requests at twice the rate that the server can answer, while 20 new versions take over. The part
passes if the requests under way never exceed their limit, if the server turns away the others with status 503, if no
accepted request fails, and if all new versions take over.

R10: clients send 100,000 requests of random bytes, ranks and types. The part passes if the server does not crash,
answers only with known status codes, and its resident memory grows by less than 20 MB over the last 90 %.

The server is the serve command as a process on this machine. It shares the processors with the clients. The exit code
is 1 if a part fails.
"""

import os
import shutil
import sys

from absl import flags

from keras_bert_app.cli.common import app
from keras_bert_app.errors import UserError

PARTS = ("R9", "R10")

_DIRECTORY = flags.DEFINE_string(
    "directory", "runs/serving_soak", "Directory for models and logs. The command deletes it first."
)
_PARTS = flags.DEFINE_list("parts", list(PARTS), "Parts to run.")
flags.DEFINE_integer("clients", 256, "R9: number of clients.", lower_bound=1)
flags.DEFINE_integer("swaps", 20, "R9: number of new versions.", lower_bound=1)
flags.DEFINE_float("load_seconds", 120, "R9: seconds of overload.", lower_bound=1)
flags.DEFINE_float("capacity_seconds", 10, "R9: seconds in which the capacity is measured.", lower_bound=0.5)
flags.DEFINE_integer("requests", 100_000, "R10: number of requests.", lower_bound=20)
flags.DEFINE_integer("seed", 7, "R10: seed of the random requests.")


def main(arguments):
    del arguments
    if not _PARTS.value:
        raise UserError(f"--parts is empty; expected at least one of {', '.join(PARTS)}")
    if unknown := [part for part in _PARTS.value if part not in PARTS]:
        raise UserError(f"--parts has {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    with app.quiet_start():
        from benchmarks.serving import serving_fuzz, serving_load
    directory = os.path.abspath(_DIRECTORY.value)
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    has_passed = True
    for part, run in (("R9", serving_load.overload), ("R10", serving_fuzz.fuzz)):
        if part in _PARTS.value:
            passed, verdict = run(directory, flags.FLAGS, lambda line, part=part: print(f"{part}: {line}", flush=True))
            has_passed &= passed
            print(f"{part}: {'passed' if passed else 'FAILED'}: {verdict}", flush=True)
    if not has_passed:
        sys.exit(1)


if __name__ == "__main__":
    app.run(main, __doc__)
