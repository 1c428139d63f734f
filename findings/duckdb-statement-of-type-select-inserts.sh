#!/usr/bin/env bash
# duckdb 2.0.1 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: a statement that `extract_statements` gives the type SELECT only reads, so that who lets nothing but SELECT pass has
# a query that changes nothing.
# Seen: `WITH x AS (INSERT ... RETURNING *) SELECT * FROM x` has the type SELECT and expects a query result, and inserts.
# What `json_serialize_sql` writes tells it: the part of the CTE is an INSERT_QUERY_NODE there.
#
# Fails where this version, installed anew, behaves otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet duckdb==2.0.1
"$folder/env/bin/python" - <<'PY'
import duckdb

connection = duckdb.connect()
connection.execute("CREATE TABLE orders (number INTEGER)")
query = "WITH x AS (INSERT INTO orders VALUES (1) RETURNING *) SELECT * FROM x"
(statement,) = connection.extract_statements(query)
print(statement.type, statement.expected_result_type)
assert statement.type == duckdb.StatementType.SELECT
assert statement.expected_result_type == [duckdb.ExpectedResultType.QUERY_RESULT]
print(connection.execute(query).fetchall())
rows = connection.execute("SELECT count(*) FROM orders").fetchone()
print("rows afterwards:", rows)
assert rows == (1,)
(document,) = connection.execute("SELECT json_serialize_sql(?)", [query]).fetchone()
assert "INSERT_QUERY_NODE" in document
PY
