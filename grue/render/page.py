"""What the pages share: their sources, minified, and content security policies."""

import base64
import hashlib
import re
from functools import cache
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined

from grue.render.text import printable


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


def policy(style: str, script: str, beside: str = "") -> str:
    """Return the content security policy: only this style, this script, embedded images, and scripts from `beside`."""
    return (
        f"default-src 'none'; style-src {_hashed(style)}; script-src {_hashed(script)}{beside}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


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
