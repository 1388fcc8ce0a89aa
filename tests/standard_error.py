"""What a command itself wrote to standard error."""

import re

# TensorFlow 2.20 writes of its coordination service and of its passes there whatever TF_CPP_MIN_LOG_LEVEL says; 2.21 does not.
_TENSORFLOWS = re.compile(r"WARNING: All log messages before absl::InitializeLog|I0000 ")


def own_lines(errors):
    """Its lines, without TensorFlow's."""
    return [line for line in errors.splitlines() if not _TENSORFLOWS.match(line)]
