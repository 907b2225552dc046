"""What the pages share: their sources, minified, and content security policies."""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from grue.render.text import printable


def filled(
    templates: Environment, name: str, style: str, scripts: Sequence[str] = (), beside: str = "", **values: Any
) -> str:
    """Return a template filled in, with its style and scripts, files of `web/`, and a policy that allows no others.

    Args:
        templates: The `environment`, or an overlay of it.
        beside: Sources of further scripts, as in a policy.
    """
    lean = lean_style(source(style))
    script = lean_script("\n".join(map(source, scripts)))
    script = f'"use strict";\n(() => {{\n{script}\n}})();' if scripts else ""
    allowed = (
        f"default-src 'none'; style-src {_hashed(lean)}; script-src {_hashed(script)}{beside}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    shared = {"style": Markup(lean), "script": Markup(script), "policy": allowed}
    return templates.get_template(name).render(**values, **shared) + "\n"


@cache
def environment() -> Environment:
    """Return the template environment: every text is escaped, and a missing name is an error."""
    templates = Environment(
        autoescape=True,
        loader=FunctionLoader(source),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["printable"] = printable
    return templates


@cache
def source(name: str) -> str:
    """Return a file of `web/`."""
    return (resources.files("grue.render.web") / name).read_text(encoding="utf-8")


def lean_style(style: str) -> str:
    """Return our own style without comments and needless spaces."""
    return re.sub(r" ?([{};,]) ?|(: )", lambda match: match[1] or ":", _lean(style, "/*"))


def lean_script(script: str) -> str:
    """Return our own script without comments and spaces around signs.

    Strings, lines with a regular expression and templates, each within one line, stay as they are.
    """
    lines = (re.sub(r" // [^\"`]*$", "", line) for line in _lean(script, "//").splitlines())
    return "\n".join(line if re.search(r"/(?! )", line) else _without_spaces(line) for line in lines)


def _hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _lean(text: str, comment: str) -> str:
    """Return our own style or script without indentation, empty lines and comment lines."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith(comment))


def _without_spaces(line: str) -> str:
    before, *template = re.split(r"(`.*`)", line)
    if template:
        return _without_spaces(before) + template[0] + _without_spaces(template[1])
    parts = re.split(r'("(?:[^"\\]|\\.)*")', line)
    return "".join(
        part if i % 2 else re.sub(r" ?([=<>&|?:,;{}()+*/!-]+) ?", r"\1", part) for i, part in enumerate(parts)
    )
