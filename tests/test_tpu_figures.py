"""The parts of check_tpu and compile_tpu that need no TPU compiler: reading a program's text, and the arithmetic."""

import pytest

from benchmarks.tpu import compile_tpu, tpu_text, tpu_traffic
from benchmarks.tpu.tpu_chips import CHIPS, floor_seconds, hbm_bytes, predicted_batch
from benchmarks.tpu.tpu_programs import Program
from keras_bert_app.errors import UserError

CLEAN = """\
module attributes {tf.versions = {producer = 2288 : i32}} {
  func.func @main(%arg0: tensor<7x13xi32>, %arg1: tensor<13x3xbf16> {tf.aliasing_output = 1 : i64}) {
    %cst = stablehlo.constant dense<1.0> : tensor<bf16>
    %0 = stablehlo.convert %arg0 : (tensor<7x13xi32>) -> tensor<7x13xbf16>
    %1 = stablehlo.dot %0, %arg1 : (tensor<7x13xbf16>, tensor<13x3xbf16>) -> tensor<7x3xbf16>
    %2:2 = "stablehlo.while"(%1, %cst) ({
      %9 = stablehlo.pad %1, %cst, low = [0, 0] : (tensor<7x3xbf16>, tensor<bf16>) -> tensor<7x3xbf16>
      stablehlo.return %9, %cst : tensor<7x3xbf16>, tensor<bf16>
    }) : (tensor<7x3xbf16>, tensor<bf16>) -> (tensor<7x3xbf16>, tensor<bf16>)
    return %2#0 : tensor<7x3xbf16>
  }
}
"""


def with_line(line):
    return CLEAN.replace("    return", f"    {line}\n    return", 1)


def test_every_operation_is_counted_in_loops_too_and_a_clean_program_is_lowered():
    summary = tpu_text.summarize(CLEAN)
    assert summary.instructions == 6 and summary.is_lowered
    assert summary.line() == "lowered, 6 instructions, 0 KB of constants, no dynamic shape, no string, 64 bits: none"


def test_an_op_without_a_tpu_kernel_is_named():
    line = '%3 = "tf.StringLength"(%4) {unit = "BYTE"} : (tensor<7x!tf_type.string>) -> tensor<7xi32>'
    summary = tpu_text.summarize(with_line(line))
    assert not summary.is_lowered
    assert summary.line() == "STOPPED: no TPU kernel: 1 StringLength; strings: 1 StringLength"


@pytest.mark.parametrize("shape", ["?x3xf32", "7x?xf32", "?x1xi64, #stablehlo.bounds<7, ?>", "*xf32"])
def test_a_shape_that_is_not_known_stops_a_program(shape):
    summary = tpu_text.summarize(with_line(f"%3 = stablehlo.abs %4 : tensor<{shape}>"))
    assert not summary.is_lowered and summary.dynamic == {"abs": 1}


@pytest.mark.parametrize("dtype", ["i64", "ui64", "f64"])
def test_types_of_64_bits_are_told_and_stop_nothing(dtype):
    summary = tpu_text.summarize(
        with_line(f"%3 = stablehlo.add %4, %5 : tensor<7x{dtype}>\n%6 = stablehlo.abs %7 : tensor<{dtype}>")
    )
    assert summary.is_lowered and summary.wide == {"add": 1, "abs": 1}


def test_arrays_that_stand_in_the_program_value_by_value_are_counted_in_bytes():
    summary = tpu_text.summarize(
        with_line(
            '%3 = stablehlo.constant dense<"0x00000000010000"> : tensor<50x10xui32>\n'
            "%4 = stablehlo.constant dense<[[true], [false]]> : tensor<2x1xi1>\n"
            "%5 = stablehlo.constant dense<0.5> : tensor<7x3xbf16>"
        )
    )
    assert summary.constant_bytes == 2002 and "2 KB of constants" in summary.line()


def test_numbers_of_64_bits_in_attributes_are_no_arrays():
    line = (
        '%3 = "stablehlo.gather"(%4) <{slice_sizes = array<i64: 1, 3>, p = dense<0> : tensor<1x2xi64>}> : '
        "(tensor<7x3xf32>) -> tensor<7x3xf32>"
    )
    assert not tpu_text.summarize(with_line(line)).wide


def test_only_what_passes_through_hbm_is_traffic_and_transfers_count_once():
    text = """\
HloModule small
%fused (p: f32[7,13]) -> f32[7,13] {
  %p = f32[7,13]{1,0} parameter(0)
  ROOT %inner = f32[7,13]{1,0} add(%p, %p)
}
ENTRY %main (a: f32[70,13]) -> f32[7,13] {
  %a = f32[70,13]{1,0:T(8,128)} parameter(0)
  %start = ((f32[70,13]{1,0}), f32[7,13]{1,0:T(8,128)S(1)}, s32[]{:S(2)}) slice-start(%a), slice={[0:7], [0:13]}
  %done = f32[7,13]{1,0:T(8,128)S(1)} slice-done(%start)
  %kernel = f32[7,13]{1,0:T(8,128)S(1)} fusion(%done), kind=kLoop, calls=%fused
  ROOT %out = (f32[7,13]{1,0}, bf16[7]{0:S(1)}) fusion(%kernel, %a), kind=kLoop, calls=%fused
}
"""
    # Fetched: 7 x 13. Written: 7 x 13. Read: all of the argument.
    assert tpu_traffic.hbm_traffic(text) == 4 * (7 * 13 + 7 * 13 + 70 * 13)


def test_the_compilers_estimates_are_added_up():
    text = """
  %a = f32[7] fusion(%b), backend_config={"window_config":{"estimated_cycles":"12"},"flag_configs":[]}
  %c = f32[7] copy(%a), backend_config={"estimated_cycles":"30"}
  %d = f32[7] fusion(%c), backend_config={"flag_configs":[]}
"""
    assert tpu_traffic.estimated_cycles(text) == 42


def test_the_floor_is_that_of_what_takes_longer():
    # 197e9 FLOP take 1 ms of a v5e, 819e6 bytes too.
    assert floor_seconds(CHIPS["v5e"], 394e9, 819e6) == (pytest.approx(2e-3), "arithmetic")
    assert floor_seconds(CHIPS["v5e"], 197e9, 3 * 819e6) == (pytest.approx(3e-3), "memory")


def test_what_takes_an_arguments_place_is_counted_once():
    assert hbm_bytes({"arguments": 100, "outputs": 90, "aliased": 80, "temporaries": 7, "code": 3}) == 120


def test_the_largest_batch_is_on_the_line_through_two():
    # 100 of weights and 10 a row.
    assert predicted_batch({8: 180, 32: 420}, memory=1000) == 88
    assert predicted_batch({32: 420, 8: 180}, memory=150) == 0
    assert predicted_batch({8: 180, 32: 180}, memory=1000) == 0  # near the limit the compiler saves where it can


def test_a_refusal_says_what_would_be_needed():
    error = (
        "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 20.50G "
        "of 15.75G hbm. Exceeded hbm capacity by 4.75G."
    )
    assert compile_tpu.needed_bytes({"error": error}, held=7) == 20.5 * 2**30
    large = "Ran out of memory on HBM, the total memory required for HLO temporaries (24.06G) exceeds available HBM (15.75G)."
    assert compile_tpu.needed_bytes({"error": large}, held=7) == 24.06 * 2**30 + 7
    assert compile_tpu.needed_bytes({"error": "UNIMPLEMENTED: something"}, held=7) is None
    assert "Used 20.50G of 15.75G" in compile_tpu.refusal(error)


class Compiler:
    """Stands for compile_tpu.Figures: programs that hold 1 GB and take so many bytes a row."""

    def __init__(self, bytes_per_row):
        self.bytes_per_row, self.done = bytes_per_row, {}

    def of(self, chip, program):
        temporaries = self.bytes_per_row * program.batch_size // program.parts
        found = {"arguments": 1e9, "outputs": 0, "aliased": 0, "temporaries": temporaries, "code": 0}
        if 1e9 + temporaries > CHIPS[chip].memory:
            found = {
                "error": f"Ran out of memory on HBM, the total memory required for HLO temporaries ({temporaries / 2**30:.2f}G) exceeds"
            }
        return self.done.setdefault(f"{chip}:{program.name}", found)


@pytest.mark.parametrize("parts", (1, 4))
@pytest.mark.parametrize("bytes_per_row", (10e6, 27e6, 28.5e6, 60e6))  # of base at 128 tokens `estimate` has some 26 MB
def test_the_largest_batch_is_found_whether_the_first_guess_was_too_small_or_too_large(bytes_per_row, parts):
    compiler = Compiler(bytes_per_row)
    program, found = compile_tpu.largest(compiler, "v5e", "base", 128, "bfloat16", parts)
    assert 0.95 * 16e9 <= hbm_bytes(found) <= 16e9 and len(compiler.done) <= 3
    assert program.batch_size % (8 * parts) == 0 and compiler.done[f"v5e:{program.name}"] is found


def test_a_program_is_what_its_name_says():
    program = Program("pretrain_lamb", "base", 512, "bfloat16", 64, 4)
    assert program.name == "pretrain_lamb/base/512/bfloat16/64/4" and Program.named(program.name) == program
    with pytest.raises(UserError, match="expected WHAT/SIZE/S/PRECISION/B/PARTS"):
        Program.named("pretrain/huge/512/bfloat16/64/4")
