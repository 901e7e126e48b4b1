"""The Python API as Markdown, from signatures, docstrings and the stub."""

import ast
import inspect
import pathlib

import onnx_memopt

FUNCTIONS = ("analyze", "optimize", "train_step", "estimate", "verify",
             "session_options")
CLASSES = ("Report", "Peak", "RuntimePeaks", "Budget", "SessionOptionsReport",
           "Tensor", "Node", "PassRun", "SweepPoint", "ModelInfo", "Dim",
           "Weights", "TrainReport", "RecomputedSegment", "BudgetPoint")
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


def render() -> str:
    package = pathlib.Path(onnx_memopt.__file__).parent
    stub = ast.parse((package / "_core.pyi").read_text())
    lines = ["## Functions"]
    for name in FUNCTIONS:
        lines += function_section(name)
    lines += ["", "## Results"]
    for name in CLASSES:
        lines += class_section(stub, name)
    lines += ["", "## Exceptions", ""]
    for name in ERRORS:
        error = getattr(onnx_memopt, name)
        bases = ", ".join(base.__name__ for base in error.__bases__)
        summary = " ".join(inspect.getdoc(error).split())
        lines.append(f"- `{name}` ({bases}): {summary}")
    return "\n".join(lines) + "\n"
