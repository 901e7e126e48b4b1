"""Reports are as they were; update_golden.py writes them again."""

import pathlib
import sys

import pytest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER))
import update_golden  # noqa: E402


@pytest.mark.parametrize("name", update_golden.CASES)
def test_report_is_as_it_was(name):
    text, json = update_golden.report(name)
    assert text == (FOLDER / f"{name}.txt").read_text()
    assert json == (FOLDER / f"{name}.json").read_text()


def test_no_report_is_left_over():
    """Every golden file belongs to a case."""
    kept = {p.stem for p in FOLDER.iterdir() if p.suffix in (".txt", ".json")}
    assert kept == set(update_golden.CASES)
