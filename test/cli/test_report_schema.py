"""Reports follow docs/report.schema.json, and docs/report.md has every field."""

import json
import re

import jsonschema
import pytest

import bad_models
from memopt_program import ROOT, analyze, parse, rewrite, save, shared_model

SCHEMA = json.loads((ROOT / "docs/report.schema.json").read_text())
DOCS = (ROOT / "docs/report.md").read_text().partition(
    "## The JSON report\n")[2]

# Fields that are documented once for several places.
ALIASES = {"after": "before", "at_peak[]": "tensors[]",
           "inner_nodes[]": "nodes[]", "profile.after": "profile.before",
           "session_options.candidates[].options":
               "session_options.recommended",
           "sweep[].before": "before", "sweep[].after": "before"}


def check(report: dict) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(report)
    for profile in report["profile"].values():
        for table in ("steps", "buffers") if profile else ():
            assert len({len(c) for c in profile[table].values()}) == 1
    check_profile(report, "before")
    if report["after"]:
        check_profile(report, "after")


def check_profile(report: dict, side: str) -> None:
    """The picture agrees with the numbers."""
    profile, peak = report["profile"][side], report[side]
    live = profile["steps"]["live_bytes"]
    assert max(live, default=0) >= peak["live_peak_bytes"]
    if not any(profile["steps"]["graph"]):
        assert max(live, default=0) == peak["live_peak_bytes"]
        assert profile["arena_bytes"] == peak["packed_peak_bytes"]


def resolve(schema: dict) -> dict:
    """The object that a field holds, if it holds one."""
    for choice in schema.get("anyOf", [schema]):
        if "$ref" in choice:
            choice = SCHEMA["$defs"][choice["$ref"].rsplit("/", 1)[1]]
        if choice.get("type") in ("object", "array"):
            return choice
    return schema


def field_names(schema: dict, prefix: str = "") -> list[str]:
    """All fields below, as docs/report.md writes them."""
    names = []
    for name, value in schema.get("properties", {}).items():
        names.append(prefix + name)
        inner, path = resolve(value), prefix + name
        if inner.get("type") == "array":
            inner, path = resolve(inner["items"]), path + "[]"
        names += field_names(inner, ALIASES.get(path, path) + ".")
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        names += field_names(resolve(extra), prefix + "*.")
    return names


def test_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_every_field_is_documented_and_no_other():
    documented = re.findall(r"^\| `([^`]+)` \|", DOCS, re.M)
    assert len(documented) == len(set(documented))
    assert set(documented) == set(field_names(SCHEMA))


def test_every_field_is_required_or_said_to_be_absent():
    """A field that may be missing says so."""
    def optional(schema):
        return set(schema["properties"]) - set(schema["required"])
    assert optional(SCHEMA) == {"training"}
    for kind, names in (("peak", {"live_peak_formulas"}),
                        ("node", {"graph"}), ("profile", set()),
                        ("tensor", {"bytes_formula", "graph"})):
        assert optional(SCHEMA["$defs"][kind]) == names


@pytest.mark.parametrize("model, dims", [
    ("resnet50", []), ("mobilenetv3", []), ("vae_dec", []),
    ("bert_dyn", ["batch=1", "seq=16,32"]), ("gpt2_dyn", []),
    ("srgan_dyn", []),
])
def test_real_networks(model, dims, tmp_path):
    path = shared_model(f"{model}.onnx")
    arguments = [a for d in dims for a in ("--dim", d)]
    check(analyze(path, *arguments, cwd=tmp_path))
    name = "m.onnx"
    (tmp_path / name).write_bytes(path.read_bytes())
    check(rewrite(name, *arguments, cwd=tmp_path)[0])


@pytest.mark.parametrize("name", ["unknown_ops", "names_that_are_not_utf8",
                                  "control_characters_in_names",
                                  "external_missing", "huge_range"])
def test_odd_models(name, tmp_path):
    (tmp_path / "m.onnx").write_bytes(bad_models.ODD[name](tmp_path))
    check(rewrite("m.onnx", cwd=tmp_path)[0])


def test_subgraphs_sequences_and_empty_graphs(tmp_path):
    for text in (
            "g (float[4] x) => (float[4] x) {}",
            """g (float[4] x, bool c) => (float[4] y) {
              y = If(c) <then_branch = t () => (float[4] a)
                           { b = Exp(x) a = Neg(b) },
                         else_branch = e () => (float[4] d) { d = Abs(x) }>
            }""",
            """g (float[4] x) => (float[n] y) {
              s = SequenceConstruct(x, x)
              y = ConcatFromSequence<axis = 0>(s)
            }"""):
        report, _ = rewrite(save(parse(text), tmp_path), cwd=tmp_path)
        check(report)


def test_a_wrong_report_is_refused(tmp_path):
    """The schema says something: these would pass an empty one."""
    report = analyze(save(parse(
        "g (float[4] x) => (float[4] y) { y = Exp(x) }"), tmp_path),
        cwd=tmp_path)
    for path, value in ((("before", "live_peak_bytes"), -1),
                        (("model", "sha256"), "abc"), (("complete",), None),
                        (("tensors",), [{}]), (("surprise",), 1)):
        wrong = json.loads(json.dumps(report))
        at = wrong
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
        with pytest.raises(jsonschema.ValidationError):
            check(wrong)
