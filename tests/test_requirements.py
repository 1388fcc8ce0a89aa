"""The files of requirements agree with each other."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]


def test_the_requirements_for_cuda_are_those_of_the_application_with_the_same_tensorflow():
    lines = [line.split("#")[0].strip() for line in (ROOT / "requirements-cuda.txt").read_text().splitlines()]
    (pinned,) = re.findall(r"^tensorflow==(\S+)$", (ROOT / "requirements.txt").read_text(), re.M)
    assert list(filter(None, lines)) == ["-r requirements.txt", f"tensorflow[and-cuda]=={pinned}"]
