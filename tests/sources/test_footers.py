"""Footers of Parquet files with changed bytes do not abort the process that reads them."""

import base64
import io
import json
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq

from zyda_flows.tasks.sources.footers import FOOTER_CHECKER

# Reads the codecs of footers, as readers of row groups do.
READ_CODECS = """
import base64, io, json, sys, pyarrow.parquet as pq
for footer in json.load(sys.stdin):
    try:
        pq.read_metadata(io.BytesIO(base64.b64decode(footer))).row_group(0).column(0).compression
    except Exception:
        pass
"""


def read_codecs(footers):
    """Read the codecs of footers in a child process; return its exit status."""
    content = json.dumps([base64.b64encode(footer).decode() for footer in footers])
    command = [sys.executable, "-c", READ_CODECS]
    return subprocess.run(command, input=content, text=True, capture_output=True, check=False).returncode


def test_codecs_of_safe_footers_are_read_without_an_abort():
    file = io.BytesIO()
    pq.write_table(pa.table({"text": ["some text"]}), file, store_schema=False)
    content = file.getvalue()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") :]
    is_safe = {
        changed: FOOTER_CHECKER.is_safe(changed)
        for changed in (footer[:at] + b"\x7e" + footer[at + 1 :] for at in range(len(footer) - 8))
    }
    assert read_codecs([changed for changed, safe in is_safe.items() if safe]) == 0
    # One of the bytes is the codec.
    assert any(read_codecs([changed]) < 0 for changed, safe in is_safe.items() if not safe)
    assert FOOTER_CHECKER.is_safe(footer)
