"""Writes docs/api.md: the public interface, from the signatures and docstrings of the code.

    python -m tools.pages.api            # or `make api`

What is public is what the packages list in `__all__`. Nothing of the page is written by hand, so a page that is not up
to date fails tests/unit/tools/test_api_page.py.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "api.md"
PACKAGES = ("pruner", "pruner_duckdb", "pruner_spark", "pruner_trino")
WIDTH = 110
HEAD = """\
# The public interface

Every public name with its signature and its description. The page is made from the code by `make api`.
[python.md](python.md) shows how the names are used. A slice is a file of a Parquet table, or a file group of a Hudi
table ([glossary](README.md#glossary)).
"""
SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):\s*$", re.MULTILINE)
ENTRY = re.compile(r"^([*\w.]+): ")
PLACE = re.compile(r"\bdocs/([\w/-]+\.md)")
PROPERTIES = {"property", "cached_property"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def page() -> str:
    """The text of docs/api.md."""
    parts = [HEAD]
    for name in PACKAGES:
        parts += package(name)
    return "\n".join(parts)


def package(name: str) -> Iterator[str]:
    """One package: its functions, classes, errors and constants."""
    module = import_module(name)
    public = {each: getattr(module, each) for each in sorted(module.__all__) if not each.startswith("__")}
    classes = {each: value for each, value in public.items() if inspect.isclass(value)}
    errors = {each: value for each, value in classes.items() if issubclass(value, Exception)}
    yield f"## `{name}`\n"
    yield prose(first_paragraph(inspect.getdoc(module) or ""))
    for each, value in public.items():
        if inspect.isfunction(value):
            yield from function(source_of(value), each, "###")
    for each, value in classes.items():
        if each not in errors:
            yield from class_(source_of(value), each)
    if errors:
        yield "### Errors\n"
        for each, value in errors.items():
            base = value.__bases__[0].__name__
            under = "" if base == "Exception" else f" (a `{base}`)"
            yield prose(f"- `{each}`{under}: {inspect.getdoc(value)}", hanging="  ", end="")
        yield ""
    constants = {each: value for each, value in public.items() if isinstance(value, str | int | float)}
    if constants:
        yield "### Constants\n"
        yield "\n".join(f"- `{each}` = `{value!r}`" for each, value in constants.items()) + "\n"


def source_of(value: object) -> ast.stmt:
    """The definition of a class or function as it stands in its file."""
    source = inspect.getsource(value)  # type: ignore[arg-type]
    return ast.parse(textwrap.dedent(source)).body[0]


def function(node: ast.stmt, title: str, level: str) -> Iterator[str]:
    """A function or method: heading, signature, description."""
    assert isinstance(node, Function)
    yield f"{level} `{title}`\n"
    yield code(signature(node, title.rpartition(".")[2]))
    yield from description(ast.get_docstring(node) or "")


def class_(node: ast.stmt, title: str) -> Iterator[str]:
    """A class: description, how it is made where users make it, attributes, methods."""
    assert isinstance(node, ast.ClassDef)
    yield f"### `{title}`\n"
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    if any(decorator.startswith("dataclass") for decorator in decorators):
        yield code(call(title, fields(node)))
    yield from description(ast.get_docstring(node) or "")
    attributes = [*values(node), *properties(node)]
    if attributes:
        yield "\n".join(prose(f"- {each}", hanging="  ", end="") for each in attributes) + "\n"
    for method in methods(node):
        yield from function(method, f"{title}.{method.name}", "####")


def fields(node: ast.ClassDef) -> Iterator[str]:
    """The fields of a dataclass as parameters."""
    for each in node.body:
        if isinstance(each, ast.AnnAssign):
            default = f" = {ast.unparse(each.value)}" if each.value else ""
            yield f"{ast.unparse(each.target)}: {ast.unparse(each.annotation)}{default}"


def values(node: ast.ClassDef) -> Iterator[str]:
    """What stands under a name in the class with a description below it, such as the members of an enumeration."""
    for each, below in zip(node.body, node.body[1:], strict=False):
        match each, below:
            case (
                ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield f"`{name}`: {text}"
            case _:
                pass


def properties(node: ast.ClassDef) -> Iterator[str]:
    """The public properties, one line each."""
    for each in public_functions(node):
        if any(ast.unparse(decorator) in PROPERTIES for decorator in each.decorator_list):
            returns = f": {ast.unparse(each.returns)}" if each.returns else ""
            text, *sections = SECTION.split(ast.get_docstring(each) or "")
            raised = "; ".join(f"`{name}`: {when.rstrip('.')}" for name, when in raises(sections))
            yield f"`{each.name}{returns}`. {' '.join(text.split())}" + (
                f" Raises {raised}." if raised else ""
            )


def raises(sections: list[str]) -> Iterator[tuple[str, str]]:
    """The entries of the section on errors, of sections as `SECTION` splits them."""
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        if title == "Raises":
            yield from entries(body)


def methods(node: ast.ClassDef) -> Iterator[Function]:
    """The public methods."""
    for each in public_functions(node):
        decorators = {ast.unparse(decorator) for decorator in each.decorator_list}
        if not decorators & (PROPERTIES | {"overload"}) and ast.get_docstring(each):
            yield each


def public_functions(node: ast.ClassDef) -> Iterator[Function]:
    """What is defined in a class without a leading underscore."""
    for each in node.body:
        if isinstance(each, Function) and not each.name.startswith("_"):
            yield each


def signature(node: Function, name: str) -> str:
    """How it is called; `self` and `cls` are the caller's object."""
    arguments = node.args
    if arguments.args and arguments.args[0].arg in {"self", "cls"}:
        arguments.args = arguments.args[1:]
    names = [*arguments.posonlyargs, *arguments.args]
    without = len(names) - len(arguments.defaults)
    parts = [spelled(each, None) for each in names[:without]]
    parts += [spelled(*pair) for pair in zip(names[without:], arguments.defaults, strict=True)]
    if arguments.vararg:
        parts.append(f"*{spelled(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [spelled(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg:
        parts.append(f"**{spelled(arguments.kwarg, None)}")
    return call(name, parts, f" -> {ast.unparse(node.returns)}" if node.returns else "")


def spelled(argument: ast.arg, default: ast.expr | None) -> str:
    """`name: type = default`."""
    annotation = f": {ast.unparse(argument.annotation)}" if argument.annotation else ""
    equals = " = " if annotation else "="
    return f"{argument.arg}{annotation}" + (f"{equals}{ast.unparse(default)}" if default else "")


def call(name: str, parts: Iterable[str], behind: str = "") -> str:
    """A call on one line where it fits, else one line for each part."""
    parts = list(parts)
    line = f"{name}({', '.join(parts)}){behind}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){behind}"])


def code(text: str) -> str:
    """A block of Python."""
    return f"```python\n{text}\n```\n"


def description(docstring: str) -> Iterator[str]:
    """The paragraphs of a docstring, and its sections as lists."""
    text, *rest = SECTION.split(docstring)
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph:
            yield prose(paragraph)
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        found = list(entries(body))
        if not found:
            yield prose(f"{title}: {textwrap.dedent(body).strip()}")
            continue
        yield f"{title}:\n"
        yield "\n".join(prose(f"- `{name}`: {text}", hanging="  ", end="") for name, text in found) + "\n"


def entries(section: str) -> Iterator[tuple[str, str]]:
    """The entries `name: text` of a section of a docstring."""
    lines = textwrap.dedent(section.strip("\n")).strip().splitlines()
    blocks: list[list[str]] = []
    for line in lines:
        if ENTRY.match(line) or not blocks:
            blocks.append([line])
        else:
            blocks[-1].append(line.strip())
    for block in blocks:
        text = " ".join(block)
        if found := ENTRY.match(text):
            yield found[1], text[found.end() :]


def first_paragraph(docstring: str) -> str:
    """The first paragraph on one line."""
    return " ".join(re.split(r"\n\s*\n", docstring.strip(), maxsplit=1)[0].split())


def prose(text: str, hanging: str = "", end: str = "\n") -> str:
    """Text in lines that a person can read; text in backquotes stays together, pages become links."""
    linked = PLACE.sub(r"[\1](\1)", text)
    kept = re.sub(r"`[^`]*`", lambda span: " ".join(span[0].split()).replace(" ", "\0"), linked)
    lines = textwrap.wrap(
        kept, WIDTH, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines).replace("\0", " ") + end


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
