"""`export` refuses flags without effect, unknown values and surplus arguments."""

import pytest


@pytest.mark.parametrize(
    "flags, said",
    [
        (["--pooling=max"], "--pooling: has no meaning for --kind=auto; it is for --kind=embeddings"),
        (["--kind=embeddings", "--top_k=3"], "--top_k: has no meaning for vectors of texts"),
        (["--max_windows=3"], "--max_windows: has no meaning for a pre-trained model"),
        (["--kind=vectors"], "should be one of <auto|embeddings>"),
        (["more"], "unexpected argument 'more'"),
    ],
)
def test_flags_without_effect_and_unknown_values_are_refused_in_one_line(run, golden, tmp_path, flags, said):
    model = golden / "huggingface_files" / "encoder"
    result = run("export", f"--workdir={model}", f"--export_dir={tmp_path}/out", *flags)
    assert result.returncode == 2 and said in result.stderr and result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
