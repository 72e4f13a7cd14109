"""Lists unnested beside their table: a condition on the table's own columns prunes it as if it were alone, and no row
is lost to a list that is NULL, empty or longer than others.

In both tables file n of four has the rows 10n to 10n+9. In `t`, row 10n+3 has no lists and 10n+4 has empty ones.
"""

# ruff: noqa: E501 - one statement, one line: they are read as a table

from __future__ import annotations

import pytest

import pruner_duckdb
from pruner.expr.nodes import TRUE
from pruner_duckdb.decode.gets import scan_predicates
from pruner_duckdb.decode.numbered import numbers_rows
from pruner_duckdb.shadow.shadow import Relation, Shadow
from pruner_duckdb.sql.queries import Node, nodes_below
from tests.engines.duckdb.duckdb_tables import BEFORE_2, Compared, indexed, oracle, write_tree


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    base = tmp_path_factory.mktemp("unnest")
    lists = (
        "CASE i % 10 WHEN 3 THEN NULL WHEN 4 THEN []::INT[] ELSE [i % 10, i % 10 + 1] END::INT[] AS xs, "
        "CASE i % 10 WHEN 3 THEN NULL WHEN 4 THEN [] ELSE [[i % 10], NULL, [], [i % 10, 7]] END::INT[][] AS xss, "
        "CASE i % 10 WHEN 3 THEN NULL WHEN 4 THEN [] ELSE [{'a': i % 10, 'b': 'x'}, NULL] END::STRUCT(a INT, b VARCHAR)[] AS rows, "
        "{'of': [i % 10, 99]} AS inner, MAP {'k': i % 10} AS m"
    )
    roots = {
        "t": write_tree(
            base / "t",
            {
                f"{n}.parquet": f"SELECT i::INT AS id, 's' || i AS s, {lists} FROM range({10 * n}, {10 * n + 10}) r(i)"
                for n in range(4)
            },
        ),
        "c": write_tree(
            base / "c",
            {
                f"{n}.parquet": f"SELECT i::INT AS k, [i % 10]::INT[] AS ys, 'n{n}' AS name FROM range({10 * n}, {10 * n + 10}) r(i)"
                for n in range(4)
            },
        ),
    }
    pruned = pruner_duckdb.connect({name: indexed(root) for name, root in roots.items()})
    return Compared(pruned, oracle(roots))


BESIDE = {
    "SELECT * FROM t, unnest(xs) AS u(x) WHERE id = 5": (1,),
    "SELECT * FROM t CROSS JOIN unnest(xs) AS u(x) WHERE id = 5": (1,),
    "SELECT * FROM t a CROSS JOIN unnest(a.xs) AS u(x) WHERE a.id = 5 AND x > 5": (1,),
    "SELECT * FROM t, LATERAL unnest(xs) AS u(x) WHERE id < 12": (2,),
    "SELECT * FROM t, LATERAL (SELECT unnest(xs) AS x) u WHERE id = 5": (1,),
    "SELECT * FROM t, LATERAL (SELECT x FROM unnest(xs) u(x) ORDER BY x LIMIT 1) WHERE id BETWEEN 3 AND 6": (
        1,
    ),
    "SELECT * FROM t, unnest(xs) AS u(x) WHERE s = 's35'": (2,),
    "SELECT * FROM t, unnest(rows) AS u(x) WHERE id = 5 AND x.a > 0": (1,),
    "SELECT id, unnest(x) FROM t, unnest(rows) AS u(x) WHERE id = 5": (1,),
    "SELECT * FROM t, unnest(t.inner.of) AS u(x) WHERE id = 5": (1,),
    "SELECT * FROM t, unnest(map_keys(m)) AS u(x) WHERE id = 5": (1,),
    "SELECT * FROM t, unnest(list_concat(xs, [id])) AS u(x) WHERE id IN (3, 4)": (1,),
    "SELECT * FROM t, unnest(xs[2:]) AS u(x) WHERE id = 5": (1,),
    "SELECT * FROM t, unnest(range(id)) AS u(x) WHERE id = 5": (1,),
    "SELECT * FROM t, unnest([1, 2]) AS u(x) WHERE id = 5": (1,),
    "SELECT count(*), max(x) FROM t, unnest(xs) u(x) WHERE id < 8 GROUP BY id": (1,),
    "SELECT id, x FROM t, unnest(xs) u(x) WHERE id < 18 ORDER BY id DESC, x LIMIT 3": (2,),
    "SELECT id, x, row_number() OVER (PARTITION BY id ORDER BY x) FROM t, unnest(xs) u(x) WHERE id < 8": (1,),
    # left joins: rows without elements stay
    "SELECT * FROM t LEFT JOIN LATERAL (SELECT unnest(xs) AS x) u ON true WHERE id = 3": (1,),
    "SELECT * FROM t LEFT JOIN unnest(xs) AS u(x) ON true WHERE id IN (3, 4)": (1,),
    "SELECT * FROM t LEFT JOIN unnest(xs) AS u(x) ON x = 5 WHERE id < 6": (1,),
    "SELECT * FROM t LEFT JOIN unnest(xs) AS u(x) ON true WHERE x IS NULL AND id > 30": (1,),
    "SELECT * FROM t LEFT JOIN unnest(xs) u(x) ON true LEFT JOIN unnest(rows) AS v(y) ON true WHERE id < 6": (
        4 if BEFORE_2 else 1,
    ),
    # several lists, and lists of lists
    "SELECT * FROM t, unnest(xss) AS u(ys), unnest(ys) AS v(y) WHERE id = 5": (1,),
    "SELECT * FROM t, unnest(xs) u(x), unnest(rows) AS v(y) WHERE id = 5 AND x > 5": (1,),
    "SELECT * FROM t, LATERAL (SELECT y FROM unnest(xss) AS u(ys), unnest(ys) AS v(y)) WHERE id = 5": (
        4 if BEFORE_2 else 1,
    ),
    # what says nothing about the table alone
    "SELECT * FROM t, unnest(xs) AS u(x) WHERE x = 5": (4,),
    "SELECT * FROM t, unnest(xs) AS u(x) WHERE id = 5 OR x = 3": (4,),
    "SELECT * FROM t, unnest(xs) AS u(x) WHERE id = x AND id < 15": (2,),
    "SELECT * FROM t, unnest(xs) AS u(x) WHERE id = 5 AND x < random()": (1,),
    # subqueries over the list
    "SELECT id, (SELECT max(x) FROM unnest(xs) AS u(x)) FROM t WHERE id < 6": (1,),
    "SELECT id FROM t WHERE id < 16 AND EXISTS (SELECT 1 FROM unnest(xs) AS u(x) WHERE x = 5)": (2,),
    "SELECT id FROM t WHERE id < 16 AND 5 IN (SELECT x FROM unnest(xs) AS u(x))": (2,),
    "SELECT id FROM t WHERE id < 16 AND 5 NOT IN (SELECT x FROM unnest(xs) AS u(x))": (2,),
    "SELECT id FROM t WHERE id = 5 OR EXISTS (SELECT 1 FROM unnest(xs) AS u(x) WHERE x = 9)": (4,),
    "SELECT id, (SELECT sum(x) FROM unnest(xs) AS u(x) WHERE x < id) AS n FROM t WHERE id < 16 AND n > 5": (
        2,
    ),
    # what is beside the list
    "SELECT * FROM (SELECT id + 1 AS n, id, xs FROM t), unnest(xs) AS u(x) WHERE id = 5": (1,),
    "SELECT * FROM (SELECT id + 1 AS n, id, xs FROM t), unnest(xs) AS u(x) WHERE n = 5": (4,),
    "SELECT * FROM (SELECT id, xs FROM t WHERE s <> 's5'), unnest(xs) AS u(x) WHERE id < 12": (2,),
    "WITH a AS (FROM t) SELECT * FROM a, unnest(xs) AS u(x) WHERE id = 5": (1,),
    "WITH a AS (FROM t) SELECT * FROM a, unnest(xs) AS u(x), a b WHERE a.id = 5 AND b.id = 25": (4,),
    "SELECT * FROM t JOIN c ON k = id, unnest(xs) AS u(x) WHERE id = 5 AND name = 'n0'": (1, 1),
    "SELECT * FROM t, c, unnest(xs) AS u(x) WHERE id = 5 AND k = 15": (1, 1),
    "SELECT * FROM t LEFT JOIN c ON k = id + 5, unnest(xs) AS u(x) WHERE id > 25 AND name IS NULL": (2, 4),
    "SELECT * FROM t RIGHT JOIN c ON k = id + 5, unnest(ys) AS u(x) WHERE k < 5 AND id IS NULL": (4, 1),
    "SELECT * FROM t FULL JOIN c ON k = id + 5, unnest(ys) AS u(x) WHERE k < 5": (4, 4),
    "SELECT * FROM t SEMI JOIN c ON k = id + 5, unnest(xs) AS u(x) WHERE id < 5": (1, 4),
    "SELECT * FROM t ANTI JOIN c ON k = id + 5, unnest(xs) AS u(x) WHERE id > 35": (1, 4),
    "SELECT * FROM t, unnest(xs) AS u(x) JOIN c ON k = x WHERE id = 5": (1, 4),
    "SELECT id, k FROM t, LATERAL (SELECT * FROM c WHERE list_contains(xs, k) AND k < 8) WHERE id = 5": (
        1,
        1,
    ),
    "SELECT * FROM t, LATERAL (SELECT k FROM c WHERE ys = [xs[1]] ORDER BY k LIMIT 2) WHERE id = 5": (1, 4),
    # row counts that matter
    "SELECT * FROM (SELECT * FROM t ORDER BY id LIMIT 20), unnest(xs) AS u(x) WHERE id = 5": (4,),
    "SELECT * FROM (SELECT DISTINCT ON (id % 10) * FROM t ORDER BY id), unnest(xs) AS u(x) WHERE id = 5": (
        4,
    ),
    "SELECT * FROM (SELECT *, row_number() OVER (ORDER BY id) n FROM t), unnest(xs) AS u(x) WHERE id = 25": (
        4,
    ),
    "SELECT id, n FROM (SELECT *, row_number() OVER (ORDER BY id DESC) n FROM t), unnest(xs) WHERE n = 2": (
        4,
    ),
}
if not BEFORE_2:  # which left-joins a list only by comparisons of both sides
    BESIDE["SELECT * FROM t LEFT JOIN unnest(xs) AS u(x) ON id = 5"] = (4,)


@pytest.mark.sampled(18)
@pytest.mark.parametrize("sql", BESIDE)
def test_beside_a_list(compared: Compared, sql: str) -> None:
    if BEFORE_2:
        # DuckDB 1.5 cannot plan some of these without its other optimizers.
        assert compared.kept(sql) == BESIDE[sql]
    else:
        compared.reads(sql, BESIDE[sql])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ["limit_rownum", "delim_index", "Limit_RowNum"])
def test_numbers_of_the_users_own_count_all_rows(compared: Compared, name: str) -> None:
    numbered = f"SELECT *, row_number() OVER () AS {name} FROM t"
    compared.reads(f"SELECT count(*) FROM ({numbered}) WHERE id = 25 AND {name} > 20", (4,))
    compared.reads(f"SELECT count(*) FROM ({numbered}), unnest(xs) WHERE id = 25 AND {name} > 20", (4,))


@pytest.mark.sampled(2)
def test_parameters_views_and_errors(compared: Compared) -> None:
    beside = "SELECT id, x FROM t, unnest(xs) AS u(x) WHERE id = ?"
    compared.reads(beside, (1,), [5])
    compared.both("CREATE VIEW elements AS SELECT id, x FROM t, unnest(xs) AS u(x)")
    compared.reads("SELECT * FROM elements WHERE id = 5", (1,))
    compared.reads("SELECT * FROM elements e JOIN c ON c.k = e.x WHERE e.id = 5", (1, 4))
    wrong = "SELECT id FROM t, unnest(xs) AS u(x) WHERE id = 5 AND s::INT = 5"
    for connection in (compared.pruned, compared.full):
        with pytest.raises(Exception, match="Could not convert string 's"):
            connection.execute(wrong)


@pytest.mark.sampled(2)
def test_a_number_that_somebody_reads_stops_the_condition() -> None:
    """DuckDB makes no such plan from a statement: the test constructs it."""
    shadow = Shadow()
    (name,) = shadow.table_names([Relation((("id", "INTEGER"), ("xs", "INTEGER[]")))])
    text = f"SELECT * FROM {name} AS t, unnest(xs) AS u(x) WHERE id = 5"
    plans = shadow.optimized_plans(text, "UTC", keep_form=False)
    operators: dict[str, Node] = {each["type"]: each for each in nodes_below(plans) if "children" in each}
    window = operators["LOGICAL_WINDOW"]
    condition = operators["LOGICAL_FILTER"]["expressions"]
    (reference,) = (each for each in nodes_below(condition) if each.get("expression_class") == "BOUND_REF")
    assert numbers_rows(window)
    assert scan_predicates(plans, text)[name] != TRUE
    assert scan_predicates(plans, text + " -- limit_rownum")[name] == TRUE
    (scan,) = window["children"]
    place, reference["index"] = reference["index"], len(scan["column_indexes"])
    assert scan_predicates(plans, text)[name] == TRUE
    reference["index"] = place
    window["expressions"][0]["partitions"] = [reference]
    assert not numbers_rows(window)
    assert scan_predicates(plans, text)[name] == TRUE
