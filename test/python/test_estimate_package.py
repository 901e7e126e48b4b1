"""The Python function `estimate`."""

import pytest

from memopt_program import ROOT
from onnx_memopt.estimate import EstimateError, estimate

MODEL = ROOT / "test" / "estimate" / "recorded" / "hf_bert.onnx"


def test_it_gives_back_the_programs_estimate(bin_dir, monkeypatch):
    monkeypatch.setenv("ONNX_MEMOPT_BIN_DIR", str(bin_dir))
    one = estimate(MODEL, batch=1)
    eight = estimate(str(MODEL), batch=8, precision="fp16", max_batch=True,
                     memory="4GiB", quiet=False)
    assert eight["batch"] == 8
    assert (eight["activation_bytes_a_sample"] * 2
            == pytest.approx(one["activation_bytes_a_sample"], rel=0.05))
    assert eight["max_batch"] > 8 and eight["fits_budget"]


def test_errors_are_the_programs(bin_dir, monkeypatch):
    monkeypatch.setenv("ONNX_MEMOPT_BIN_DIR", str(bin_dir))
    with pytest.raises(EstimateError, match="--zero: 9"):
        estimate(MODEL, zero=9)
    with pytest.raises(EstimateError, match="no dimension"):
        estimate(MODEL, dims={"rows": 3})
    with pytest.raises(EstimateError, match="no such file"):
        estimate("nothing.onnx")
