"""Tests the local server under overload with swaps of versions (R9) and under requests of random content (R10).

python -m benchmarks.serving.serving_soak --directory=runs/serving_soak

R9: 256 clients ask at twice the rate that the server can answer, while 20 new versions take over. The part passes if
the number of requests under way keeps its bound, all other requests get 503, and no accepted request fails.

R10: 100,000 requests of random bytes, ranks and types. The part passes if the server does not crash and
answers with known status codes alone. Its resident memory must grow by less than 20 MB over the last 90 %.

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

_DIRECTORY = flags.DEFINE_string("directory", "runs/serving_soak", "Where models and logs go; removed first.")
_PARTS = flags.DEFINE_list("parts", list(PARTS), "Which goals.")
flags.DEFINE_integer("clients", 256, "R9: clients.", lower_bound=1)
flags.DEFINE_integer("swaps", 20, "R9: versions that take over.", lower_bound=1)
flags.DEFINE_float("load_seconds", 120, "R9: for how long.", lower_bound=1)
flags.DEFINE_float("capacity_seconds", 10, "R9: for how long the capacity is measured.", lower_bound=0.5)
flags.DEFINE_integer("requests", 100_000, "R10: how many.", lower_bound=20)
flags.DEFINE_integer("seed", 7, "R10: of the random requests.")


def main(arguments):
    del arguments
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
