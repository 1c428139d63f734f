#!/usr/bin/env bash
# pyarrow 26.0.1, pandas 3.1.1 (PyPI), Python 3.11, seen on 29 November 2026.
#
# Guess: `pyarrow.Table.from_pandas(frame, schema)` keeps in its metadata what each column was in pandas, in whatever order
# the schema has the columns and the index.
# Seen: it does where the index comes last in the schema. Where it comes first, the metadata pairs names with the wrong
# columns and has none of the last one, without a warning: that comes back from Parquet with another dtype, here
# whole numbers with a gap as floats, which have lost the last digit.
#
# Fails where these versions, installed anew, behave otherwise.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet pyarrow==26.0.1 pandas==3.1.1
cd "$folder"
"$folder/env/bin/python" - <<'PY'
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

big = 2**53 + 1
frame = pd.DataFrame(
    {"word": pd.array(["a", None], dtype="string"), "count": pd.array([big, None], dtype="Int64")},
    index=pd.Index(["x", "y"], name="id"),
)
types = {"id": pa.string(), "word": pa.string(), "count": pa.int64()}


def write_and_read(*order):
    schema = pa.schema([(name, types[name]) for name in order])
    parquet.write_table(pa.Table.from_pandas(frame, schema), "frame.parquet")
    read = pd.read_parquet("frame.parquet")
    print(f"{order}: count is {read['count'].dtype}, {read['count'].iloc[0]!r}; index {read.index.name!r}")
    return read["count"]


last = write_and_read("word", "count", "id")
assert last.dtype == "Int64" and last.iloc[0] == big
first = write_and_read("id", "word", "count")
assert first.dtype == "float64" and int(first.iloc[0]) != big
PY
