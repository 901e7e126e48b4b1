"""The Python API as Markdown, from signatures, docstrings and the stub."""

import ast
import inspect
import pathlib
import re

import onnx_memopt

FUNCTIONS = ("analyze", "optimize", "train_step", "estimate", "verify",
             "session_options", "give_back_freed_memory")
CLASSES = ("Report", "Peak", "RuntimePeaks", "Budget", "SessionOptionsReport",
           "Tensor", "Node", "PassRun", "SweepPoint", "ModelInfo", "Dim",
           "Weights", "TrainReport", "RecomputedSegment", "BudgetPoint")
# Of the module _verify, whose fields have comments.
VERIFY_CLASSES = ("VerifyResult", "ModelResult", "Measurement", "Run", "Output",
                  "Input", "Prediction", "PredictedPeaks")
ERRORS = ("Error", "ModelError", "OptionError", "BudgetError", "VerifyError",
          "UsageError")


def function_section(name: str) -> list[str]:
    function = getattr(onnx_memopt, name)
    signature = inspect.signature(function)
    parameters = [
        f"{p.name}: {p.annotation}" + ("" if p.default is p.empty
                                       else f" = {p.default!r}")
        for p in signature.parameters.values()]
    keyword_only = [p.kind is p.KEYWORD_ONLY
                    for p in signature.parameters.values()]
    if any(keyword_only):
        parameters.insert(keyword_only.index(True), "*")
    returned = signature.return_annotation
    lines = ["", f"### {name}", "", "```text", f"{name}("]
    lines += [f"    {parameter}," for parameter in parameters]
    lines += [f") -> {returned}", "```", ""]
    return lines + ["```text", *inspect.getdoc(function).split("\n"), "```"]


def member(node: ast.FunctionDef) -> tuple[str, str]:
    """How it is written and of what type."""
    returned = ast.unparse(node.returns) if node.returns else "None"
    if any(ast.unparse(d) == "property" for d in node.decorator_list):
        return node.name, returned
    arguments = ast.unparse(node.args).removeprefix("self").removeprefix(", ")
    return f"{node.name}({arguments.removeprefix('/').removeprefix(', ')})", \
        returned


def class_section(stub: ast.Module, name: str) -> list[str]:
    node = next(n for n in stub.body
                if isinstance(n, ast.ClassDef) and n.name == name)
    summary = " ".join((ast.get_docstring(node) or "").split())
    lines = ["", f"### {name}", "", summary, "",
             "| attribute | type | |", "|---|---|---|"]
    for child in node.body:
        if not isinstance(child, ast.FunctionDef) or child.name.startswith(
                "_"):
            continue
        written, returned = member(child)
        text = " ".join((ast.get_docstring(child) or "").split())
        # A bar would end the cell.
        lines.append(f"| `{written}` | {returned.replace('|', 'or')} "
                     f"| {text} |")
    return lines


def dataclass_section(source: str, name: str) -> list[str]:
    """A dataclass of Python: its fields with the comments above them."""
    module = ast.parse(source)
    text = source.split("\n")
    node = next(n for n in module.body
                if isinstance(n, ast.ClassDef) and n.name == name)
    lines = ["", f"### {name}", "",
             " ".join((ast.get_docstring(node) or "").split()), "",
             "| attribute | type | |", "|---|---|---|"]
    for child in node.body:
        if isinstance(child, ast.AnnAssign):
            above, at = [], child.lineno - 2
            while (comment := re.match(r" +#:? (.*)", text[at])):
                above.insert(0, comment[1])
                at -= 1
            lines.append(f"| `{ast.unparse(child.target)}` | "
                         f"{ast.unparse(child.annotation)} | "
                         f"{' '.join(above)} |")
        elif isinstance(child, ast.FunctionDef):
            written, returned = member(child)
            summary = " ".join((ast.get_docstring(child) or "").split())
            lines.append(f"| `{written}` | {returned} | {summary} |")
    return lines


def pass_section() -> list[str]:
    """MemOptPass, from its source: onnx_ir may not be installed."""
    package = pathlib.Path(onnx_memopt.__file__).parent
    module = ast.parse((package / "passes.py").read_text())
    node = next(n for n in module.body
                if isinstance(n, ast.ClassDef) and n.name == "MemOptPass")
    start = next(n for n in node.body if isinstance(n, ast.FunctionDef))
    lines = ["", "### MemOptPass", "",
             "In `onnx_memopt.passes`; it needs `onnx_ir`.", "", "```text",
             "MemOptPass("]
    lines += [f"    {argument.arg}: {ast.unparse(argument.annotation)}"
              f" = {ast.unparse(default)},"
              for argument, default in zip(start.args.kwonlyargs,
                                           start.args.kw_defaults)]
    return lines + [")", "```", "", "```text",
                    *ast.get_docstring(node).split("\n"), "```"]


def render() -> str:
    package = pathlib.Path(onnx_memopt.__file__).parent
    stub = ast.parse((package / "_core.pyi").read_text())
    lines = ["## Functions"]
    for name in FUNCTIONS:
        lines += function_section(name)
    lines += pass_section()
    lines += ["", "## Results",
              "", "`estimate` gives an `EstimateReport`: a mapping of the fields "
              "that", "[estimating.md](estimating.md#the-json) lists, whose "
              "str() is the text of the program."]
    for name in CLASSES:
        lines += class_section(stub, name)
    source = (package / "_verify.py").read_text()
    for name in VERIFY_CLASSES:
        lines += dataclass_section(source, name)
    lines += ["", "## Exceptions", ""]
    for name in ERRORS:
        error = getattr(onnx_memopt, name)
        bases = ", ".join(base.__name__ for base in error.__bases__)
        summary = " ".join(inspect.getdoc(error).split())
        lines.append(f"- `{name}` ({bases}): {summary}")
    return "\n".join(lines) + "\n"
