"""Adapters and index types of other distributions: found, or refused in one sentence."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

import pruner_duckdb
import pruner_spark
import pruner_trino
from pruner.adapters import Adapter, QueryAdapter, RequestDecoder, adapter_names, load_adapter
from pruner.errors import IndexDefinitionError, PredicateError
from pruner.expr import semantics
from pruner.expr.engines import NanOrder
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.indexes.base import IndexType
from pruner.indexes.registry import index_type
from pruner.plugins import BrokenPluginError, Group, MissingPluginError, load_plugin

Install = Callable[..., None]
TRAITS = """
from pruner.expr.engines import NanOrder, Traits
engine = "quack"
traits = Traits(name="quack", title="Quack", nan_order=NanOrder.UNORDERED)
"""
_numbers = count()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts a distribution with one module and one entry point where Python finds it."""

    def put(name: str, code: str, *, group: Group = Group.ADAPTERS, value: str = "", extra: str = "") -> None:
        module = f"plugin_of_{next(_numbers)}"
        site = tmp_path / module
        info = site / f"{module}-1.5.dist-info"
        info.mkdir(parents=True)
        metadata = (
            f"Metadata-Version: 2.4\nName: dist-of-{name}{'-' + value if value else ''}\nVersion: 1.5\n"
        )
        (info / "METADATA").write_text(metadata + (f"Provides-Extra: {extra}\n" if extra else ""))
        (info / "entry_points.txt").write_text(f"[{group.entry_points}]\n{name} = {module}{value}\n")
        (site / f"{module}.py").write_text(code)
        monkeypatch.syspath_prepend(site)

    remembered = (load_plugin, semantics._defaults)  # pyright: ignore[reportPrivateUsage]
    for each in remembered:
        each.cache_clear()
    yield put
    for each in remembered:
        each.cache_clear()
    for module in [each for each in sys.modules if each.startswith("plugin_of_")]:
        del sys.modules[module]


def test_the_adapters_of_this_distribution_are_what_the_protocol_says() -> None:
    """The annotations are checked by pyright, the rest here."""
    adapters: tuple[Adapter, ...] = (pruner_duckdb, pruner_spark, pruner_trino)
    decoder: RequestDecoder = pruner_trino
    assert set(adapter_names()) >= {"duckdb", "spark", "trino"}
    assert [load_adapter(each.engine) for each in adapters] == list(adapters)
    assert load_adapter("Trino") is decoder
    assert isinstance(load_adapter("duckdb"), QueryAdapter)
    assert not isinstance(load_adapter("spark"), RequestDecoder)


@pytest.mark.parametrize(("group", "protocol"), [(Group.ADAPTERS, Adapter), (Group.INDEX_TYPES, IndexType)])
def test_what_a_loaded_object_must_have_is_what_its_protocol_has(group: Group, protocol: type) -> None:
    members = {name for name, _ in inspect.getmembers(protocol) if not name.startswith("_")}
    assert members == set(group.attributes)


def test_a_fourth_engine_has_the_traits_that_its_adapter_brings(install: Install) -> None:
    with pytest.raises(
        PredicateError, match="^unknown engine 'quack': use one of duckdb, .*, or install its adapter$"
    ):
        Semantics.of("quack")
    install("Quack", TRAITS)
    assert load_adapter("QUACK") is load_adapter("quack")
    assert "quack" in adapter_names()
    rules = Semantics.of("quack")
    assert (rules.engine, rules.nan_order, rules.traits.title) == ("quack", NanOrder.UNORDERED, "Quack")
    with pytest.raises(PredicateError, match="^Quack has no SQL"):
        parse_predicate("a = 1", rules)


@pytest.mark.parametrize("code", ["engine = 'quack'", TRAITS.replace('name="quack"', 'name="duck"')])
def test_an_adapter_without_traits_of_its_engine_has_no_rules(install: Install, code: str) -> None:
    install("quack", code)
    with pytest.raises(PredicateError, match="^the adapter of 'quack' defines no traits"):
        Semantics.of("quack")


def test_a_broken_adapter_is_named_by_whoever_asks_for_its_engine(install: Install) -> None:
    install("quack", "import no_such_engine")
    with pytest.raises(PredicateError, match="^adapter 'quack' .* No module named 'no_such_engine'$"):
        Semantics.of("quack")


def test_an_adapter_that_nobody_installed_is_named_with_those_that_are() -> None:
    with pytest.raises(MissingPluginError, match="^no adapter 'quack' is installed; there are: .*duckdb, "):
        load_adapter("quack")


@pytest.mark.parametrize(
    ("code", "value", "extra", "sentence"),
    [
        ("import no_such_engine", "", "", r"cannot be loaded: No module named 'no_such_engine'$"),
        (
            "import no_such_engine",
            "",
            "quack",
            r"cannot be loaded: No module named 'no_such_engine'; install the extra 'quack' of dist-of-quack "
            r"\(in a checkout: pip install '\.\[quack\]'\)$",
        ),
        ("raise RuntimeError('needs\\n  quack 9')", "", "", r"cannot be loaded: needs quack 9$"),
        ("raise RuntimeError", "", "", r"cannot be loaded: RuntimeError$"),
        ("", ":missing", "", r"cannot be loaded: module '\w+' has no attribute 'missing'$"),
        ("", "", "", r"cannot be used: it has no engine$"),
        (
            "class Quack:\n    engine = 'quack'",
            ":Quack",
            "",
            r"cannot be used: it is the class Quack, where one ",
        ),
        (
            TRAITS.replace('"quack"', '"duck"'),
            "",
            "",
            r"cannot be used: its engine is 'duck', and its entry must have the same name$",
        ),
    ],
)
def test_a_broken_adapter_is_one_sentence_that_names_its_package(
    install: Install, code: str, value: str, extra: str, sentence: str
) -> None:
    install("quack", code, value=value, extra=extra)
    package = rf"adapter 'quack' \(plugin_of_\d+{value} of dist-of-quack.* 1.5\) "
    with pytest.raises(BrokenPluginError, match=f"^{package}{sentence}") as refused:
        load_adapter("quack")
    assert "\n" not in str(refused.value)


def test_two_distributions_for_one_engine_are_both_named(install: Install) -> None:
    install("quack", TRAITS)
    install("quack", "a = None", value=":a")
    sentence = "adapter 'quack' is registered by dist-of-quack and dist-of-quack-:a: uninstall all but one"
    with pytest.raises(BrokenPluginError, match=sentence):
        load_adapter("quack")


def test_a_broken_index_type_names_what_it_lacks(install: Install) -> None:
    install("quacks", "name = 'quacks'\npartition = 'quacks'\nversion = 1", group=Group.INDEX_TYPES)
    with pytest.raises(
        IndexDefinitionError, match=r"^index type 'quacks' .* it has no check, no record, no load$"
    ):
        index_type("quacks")
