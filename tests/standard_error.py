"""The lines that a command itself writes to standard error."""

import re

# TensorFlow 2.20 logs its coordination service and its graph passes at any TF_CPP_MIN_LOG_LEVEL. 2.21 does not.
_TENSORFLOW_LINE = re.compile(r"WARNING: All log messages before absl::InitializeLog|I0000 ")


def own_lines(errors: str) -> list[str]:
    """The lines of standard error without those of TensorFlow."""
    return [line for line in errors.splitlines() if not _TENSORFLOW_LINE.match(line)]
