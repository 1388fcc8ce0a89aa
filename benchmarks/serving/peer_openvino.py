"""Computes the outputs of a SavedModel over ids with OpenVINO, for openvino_ids.

reference_answers runs this script in an environment with benchmarks/requirements-openvino.txt. A request has
saved_model (its directory) and inputs (dict of name to lists). The answer is a dict of output name to lists.
"""

import numpy as np
import openvino

PACKAGES = ("openvino",)


def answer(request):
    """The answer to a request; see the module's docstring."""
    model = openvino.Core().compile_model(
        openvino.convert_model(request["saved_model"]), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    outputs = model({name: np.array(values, np.int32) for name, values in request["inputs"].items()})
    return {name: outputs[port].tolist() for port in model.outputs for name in sorted(port.get_names())}
