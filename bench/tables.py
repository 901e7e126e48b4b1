"""Tables of results in Markdown, and the files of a benchmark."""

import json


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |",
             "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) +
              " |" for row in rows]
    return "\n".join(lines)


def write(folder, name, about, lines, raw):
    """NAME.md says what the machine is, then the lines; NAME.json has that and
    the raw figures. Returns the text of the first."""
    text = "\n".join([f"{key}: {value}  " for key, value in about.items()] +
                     ["", *lines])
    (folder / f"{name}.md").write_text(text + "\n", encoding="utf-8")
    (folder / f"{name}.json").write_text(
        json.dumps({"machine": about, **raw}, indent=1) + "\n",
        encoding="utf-8")
    return text
