"""The probe of facts: one that holds, and one that does not."""

import probe_ort


def test_a_fact_that_holds(bin_dir, capsys):
    program = bin_dir / "onnx-memopt-opt"
    assert probe_ort.main(["--only", "Where", "--program", str(program)]) == 0
    assert "1 of 1 facts hold" in capsys.readouterr().out


def test_a_fact_that_does_not_hold(bin_dir, capsys, monkeypatch):
    # As if the runtime computed Exp in place: half of the memory is missing.
    real = probe_ort.ort_memory.measure

    def measure(*arguments):
        result = real(*arguments)
        result["peaks"] = [peak // 2 for peak in result["peaks"]]
        return result

    monkeypatch.setattr(probe_ort.ort_memory, "measure", measure)
    program = bin_dir / "onnx-memopt-opt"
    assert probe_ort.main(["--only", "Exp on", "--program",
                           str(program)]) == 1
    assert "| no |" in capsys.readouterr().out


def test_nothing_to_check(bin_dir):
    program = bin_dir / "onnx-memopt-opt"
    assert probe_ort.main(["--only", "no such fact", "--program",
                           str(program)]) == 2
