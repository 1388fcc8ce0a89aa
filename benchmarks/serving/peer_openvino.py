"""Reads a SavedModel over ids with OpenVINO, asked by lines of JSON: openvino_ids' peer, in an interpreter of its own."""

import importlib.metadata
import json
import sys

import numpy as np
import openvino


def main():
    print(json.dumps({"openvino": importlib.metadata.version("openvino")}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        model = openvino.Core().compile_model(
            openvino.convert_model(request["saved_model"]), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
        )
        inputs = {name: np.array(values, np.int32) for name, values in request["inputs"].items()}
        outputs = model(inputs)
        found = {name: outputs[port].tolist() for port in model.outputs for name in sorted(port.get_names())}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
