"""Compiles one program in StableHLO by the TPU's own compiler, without a TPU, and prints figures as a line of JSON.

TPU_COMPILE_ENV/bin/python -m benchmarks.tpu.tpu_compiler --chip=v5e --file=program.mlir

The entry points are private to the jaxlib of benchmarks/requirements-tpu-compile.txt. A process compiles for one chip,
since libtpu reads the chip when it is loaded.
"""

import json
import os
import time

from absl import flags

from benchmarks.tpu import tpu_traffic
from benchmarks.tpu.tpu_chips import CHIPS
from keras_bert_app.cli.common import app

_CHIP = flags.DEFINE_enum("chip", "v5e", list(CHIPS), "The TPU.")
_FILE = flags.DEFINE_string("file", "", "Lowered program that check_tpu --output_dir wrote.")
_HLO_FILE = flags.DEFINE_string("hlo_file", "", "File for the compiled program as text; empty: none.")


def compile_file(chip: str, path: str, hlo_path: str = "") -> dict:
    """Compiles a program.

    Args:
        chip: str. A key of CHIPS.
        path: str. The program in StableHLO.
        hlo_path: str. File for the compiled program as text; "" for none.

    Returns:
        dict with arguments, outputs, aliased, temporaries and code (bytes of HBM); flops, hbm_traffic and cycles (see
        tpu_traffic), which count a loop's body once; seconds of compiling; device. If the compiler refuses the program:
        error (its message), seconds and device.
    """
    # Without these, libtpu waits long for a metadata server that exists only on TPU machines.
    os.environ |= {
        "TPU_SKIP_MDS_QUERY": "1",
        "TPU_ACCELERATOR_TYPE": CHIPS[chip].accelerator,
        "TPU_WORKER_HOSTNAMES": "localhost",
        "TPU_WORKER_ID": "0",
        "JAX_PLATFORMS": "cpu",
        "TPU_LOAD_LIBRARY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",  # several processes may compile at a time
    }
    import jax
    import numpy as np
    from jax._src.interpreters import mlir
    from jax.experimental import topologies
    from jaxlib import _jax
    from jaxlib.mlir import ir

    device = topologies.get_topology_desc(platform="tpu", topology_name=CHIPS[chip].topology).devices[0]
    with open(path, encoding="utf-8") as file, mlir.make_ir_context():
        module = ir.Module.parse(file.read())
    options = _jax.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.device_assignment = _jax.DeviceAssignment.create(np.array([[device.id]]))
    started = time.monotonic()
    try:
        executable = device.client.compile(module, _jax.DeviceList((device,)), options)
    except jax.errors.JaxRuntimeError as error:
        return {"error": str(error)[:4000], "seconds": time.monotonic() - started, "device": device.device_kind}
    stats, costs = executable.get_compiled_memory_stats(), executable.cost_analysis()
    text = "\n".join(module.to_string() for module in executable.hlo_modules())
    if hlo_path:
        with open(hlo_path, "w", encoding="utf-8") as file:
            file.write(text)
    return {
        "arguments": stats.argument_size_in_bytes,
        "outputs": stats.output_size_in_bytes,
        "aliased": stats.alias_size_in_bytes,
        "temporaries": stats.temp_size_in_bytes,
        "code": stats.generated_code_size_in_bytes,
        "flops": costs["flops"],
        "hbm_traffic": tpu_traffic.hbm_traffic(text),
        "cycles": tpu_traffic.estimated_cycles(text),
        "seconds": time.monotonic() - started,
        "device": device.device_kind,
    }


def main(arguments):
    del arguments
    (path,) = app.required("file")
    print(json.dumps(compile_file(_CHIP.value, path, _HLO_FILE.value)), flush=True)


if __name__ == "__main__":
    app.run(main, __doc__)
