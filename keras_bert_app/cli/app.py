"""What all scripts share: quick --help, one-line errors with exit code 2, and a quiet TensorFlow."""

import contextlib
import os
import sys
import tempfile

from absl import app, flags, logging

from keras_bert_app.errors import UserError
from pipelines.errors import DataError

USAGE_ERROR = 2


def run(main, description):
    """Runs main(positional arguments) after parsing flags; user-facing errors become one line and exit code 2.

    Args:
        main: called with the list of positional arguments.
        description: printed above the flags by --help.
    """
    app.run(lambda argv: _guarded(main, argv[1:]), flags_parser=lambda argv: _parse(argv, description))


def _parse(argv, description):
    if any(argument.lstrip("-") in ("help", "h", "helpshort", "helpfull") and argument.startswith("-")
           for argument in argv[1:]):
        print(f"{description.strip()}\n{flags.FLAGS.main_module_help()}")
        sys.exit(0)
    try:
        return flags.FLAGS(argv)
    except flags.Error as error:
        _fail(" ".join(str(error).split()) + "; --help lists the flags")


def _guarded(main, arguments):
    try:
        main(arguments)
    except (UserError, DataError) as error:
        _fail(str(error))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def _fail(message):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(USAGE_ERROR)


def required(*names):
    """The values of flags that must be given.

    Raises:
        UserError: one is empty.
    """
    for name in names:
        if not flags.FLAGS[name].value:
            raise UserError(f"--{name} is missing; it says: {flags.FLAGS[name].help}")
    return [flags.FLAGS[name].value for name in names]


@contextlib.contextmanager
def quiet_start():
    """Imports TensorFlow with its start-up chatter kept from the user's sight; printed only if the import fails."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as chatter:
        os.dup2(chatter.fileno(), 2)
        try:
            import tensorflow as tf
            tf.get_logger().setLevel("ERROR")
            logging.set_verbosity(logging.ERROR)  # absl's own, in which TensorFlow's savers talk
            tf.config.list_logical_devices()  # drivers chatter when devices are first asked for
            yield
        except BaseException:
            sys.stderr.flush()
            chatter.seek(0)
            os.write(kept, chatter.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
