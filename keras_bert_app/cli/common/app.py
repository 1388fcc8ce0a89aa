"""The start of all commands: quick --help, one-line errors with exit code 2, and a quiet TensorFlow."""

import contextlib
import gc
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from absl import app, flags, logging

from keras_bert_app.cli.common import foreign_flags, help_pages, written_places
from keras_bert_app.cli.common.flag_groups import GroupedFlags
from keras_bert_app.cli.common.interrupts import Interrupts
from keras_bert_app.errors import DeviceLost, Interrupted, UserError, failed_check
from keras_bert_app.terminal import screen
from keras_bert_app.training import gpu_environment, tpu_wheels
from pipelines import storage
from pipelines.data_error import DataError

USAGE_ERROR = 2
DEVICE_LOST = 75  # EX_TEMPFAIL of sysexits.h: the same command may succeed later
_EXTRAS_OF_KERAS = ("matplotlib", "matplotlib.pyplot", "pandas", "sklearn")


def run(
    main: Callable[[list[str]], None],
    description: str,
    is_listing: bool | Callable[[], bool] = False,
    takes_arguments: bool = False,
    instead_of_arguments: str = "this command takes flags only; quote a value that has spaces",
    writes: Mapping[str, str] = MappingProxyType({}),
    grouped: GroupedFlags | None = None,
) -> None:
    """Parses the flags and runs main. An error of the user becomes one line and exit code 2.

    The program that reads the output, such as head, may end early. A listing then ends. Other commands go on.

    Args:
        main: function of the list of positional arguments.
        description: str. The text that --help prints above the flags.
        is_listing: bool, or a function without arguments that returns it. Whether the command only prints.
        takes_arguments: bool. Whether the command accepts positional arguments. If not, they are an error.
        instead_of_arguments: str. The advice in that error.
        writes: dict name of a flag for an output place -> the kind of data that may be there; see written_places.check.
        grouped: GroupedFlags. The groups of the command's flags; without groups --help lists all flags.
    """

    def checked_main(arguments):
        if arguments and not takes_arguments:
            raise UserError(f"unexpected argument {arguments[0]!r}; {instead_of_arguments}")
        foreign_flags.check_values()
        _check_places(writes)
        main(arguments)

    app.run(
        lambda argv: _run(checked_main, argv[1:], is_listing() if callable(is_listing) else is_listing),
        flags_parser=lambda argv: _parse(argv, description, grouped),
    )


def _check_places(writes):
    # TensorFlow lists remote places. Its start-up messages must stay hidden.
    is_remote = any(storage.is_remote(flags.FLAGS[flag].value or "") for flag in writes)
    with quiet_start() if is_remote else contextlib.nullcontext():
        written_places.check(writes)


def _run(main, arguments, is_listing):
    with screen.read_or_not("stderr") if is_listing else screen.read_or_not("stdout", "stderr"):
        _guarded(main, arguments, screen.until_reader_leaves() if is_listing else contextlib.nullcontext())


def _parse(argv, description, grouped):
    if help_pages.is_wanted(argv[1:]):
        try:
            text = help_pages.page(argv[1:], description, grouped)
        except UserError as error:
            _fail(str(error))
        with screen.until_reader_leaves():
            print(text, flush=True)
        sys.exit(0)
    listing = "--helpfull" if grouped else "--help"
    try:
        return flags.FLAGS(argv)
    except flags.UnrecognizedFlagError as error:
        advice = foreign_flags.advice(error.flagname, set(flags.FLAGS)) or " ".join(str(error).split())
        _fail(f"{advice}; {listing} lists the flags")
    except flags.Error as error:
        _fail(" ".join(str(error).split()) + f"; {listing} lists the flags")


def _guarded(main, arguments, output):
    interrupts = Interrupts()
    try:
        with interrupts, output:
            main(arguments)
    except DeviceLost as error:
        print(f"error: {error}; the same command continues from the last checkpoint", file=sys.stderr)
        sys.exit(DEVICE_LOST)
    except Interrupted as stop:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # a second signal must not change the exit code
        saved = (
            "saved; the same command continues from there"
            if stop.has_saved
            else "the chief saves; this machine does not save"
        )
        where = (
            f"after step {stop.step:,}, {saved}" if stop.step else "before the first step; the same command begins anew"
        )
        print(f"stopped by {signal.Signals(stop.number).name} {where}", file=sys.stderr)
        sys.exit(128 + stop.number)
    except (KeyboardInterrupt, Exception) as error:
        # TensorFlow turns some interrupts into errors, and our code may have made a UserError of such an error.
        if interrupts.came or isinstance(error, KeyboardInterrupt):
            print("interrupted", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)
        if not (line := _line_of(error)):
            raise
        _fail(line)


def _line_of(error):
    """Returns the line that a person reads about an error, or "" for an error that is a fault of ours."""
    if isinstance(error, (UserError, DataError)):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror or error}; {_advice(error.strerror)}"
    if line := failed_check(error):
        return line
    if not _is_about_a_file(error):
        return ""
    message = re.sub(r"^\{\{.*?\}\} | \[Op:\w+\]", "", str(error).strip().splitlines()[0])
    return f"{message}; {_advice(message)}"


def _advice(message):
    if "No space left" in str(message):
        return "free some space and give the same command again"
    if re.search("OOM|[Oo]ut of memory", str(message)):  # the words of TensorFlow and of XLA
        return (
            "lower --batch_size"
            if "batch_size" in flags.FLAGS
            else "lower --global_batch_size, or take it in parts with --gradient_accumulation_steps"
        )
    return "give a path that can be read or written"


def _is_about_a_file(error):
    """Returns whether an error comes from tf.io.gfile. It compares names, so it does not load TensorFlow."""
    names = (
        "NotFoundError",
        "PermissionDeniedError",
        "FailedPreconditionError",
        "AlreadyExistsError",
        "ResourceExhaustedError",
    )
    is_no_file_system = type(error).__name__ == "UnimplementedError" and "File system scheme" in str(error)
    return type(error).__module__.startswith("tensorflow.") and (type(error).__name__ in names or is_no_file_system)


def _fail(message):
    print(f"error: {message}", file=sys.stderr)
    sys.exit(USAGE_ERROR)


def required(*names: str) -> list:
    """Returns the values of flags that the user must give.

    Args:
        *names: str. Names of flags.

    Returns:
        list: the values in the order of the names.

    Raises:
        UserError: a flag is empty. The message names all empty flags.
    """
    missing = [name for name in names if not flags.FLAGS[name].value]
    if len(missing) == 1:
        raise UserError(f"--{missing[0]} is missing; its help: {flags.FLAGS[missing[0]].help}")
    if missing:
        raise UserError(f"--{', --'.join(missing[:-1])} and --{missing[-1]} are missing; --help explains them")
    return [flags.FLAGS[name].value for name in names]


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Imports TensorFlow, and hides its messages and the messages of imports within the block.

    The messages appear only if an import fails.
    """
    tpu_wheels.check()
    gpu_environment.prepare()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with screen.hidden_chatter(), _without_collection():
        with _without_extras_of_keras():
            import tensorflow as tf

        tf.get_logger().setLevel("ERROR")
        logging.set_verbosity(logging.ERROR)  # TensorFlow's savers log through absl
        tf.config.list_physical_devices()  # drivers print messages at the first query for devices
        yield


@contextlib.contextmanager
def _without_extras_of_keras():
    """Hides packages that Keras imports if they are installed.

    These packages take a third of the time of TensorFlow's import. Keras needs them for wrappers and pictures that no
    command uses. Modules of this project can import them afterwards.
    """
    hidden = [name for name in _EXTRAS_OF_KERAS if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextlib.contextmanager
def _without_collection():
    """Pauses garbage collection during imports. Collection takes an eighth of the time of TensorFlow's import."""
    if "tensorflow" in sys.modules or not gc.isenabled():  # gc.freeze would keep the garbage of an earlier command
        yield
        return
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        gc.enable()
