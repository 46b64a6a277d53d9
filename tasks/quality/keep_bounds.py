"""Bounds of a `keep`: how long and how deep it may be, and how much larger than its row what it makes.

polars ends the process where a tree is too deep for its stack or memory cannot be had, and some functions write
what they are given several times into the tree. So whatever is not small is judged in a process of its own first.
"""

import base64
import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa

MOST_CHARACTERS = 20_000
MOST_LEVELS = 200
MOST_GROWTH = 256  # times: of a text by what is replaced or joined in it
MOST_PADDED = 1000
MOST_JOINED = 32
SMALL_CHARACTERS, SMALL_BRACKETS, SMALL_BETWEENS = 500, 8, 8
SECONDS, MEMORY = 30, 2 << 30  # of the process of its own; on a busy machine it may take far longer
SHORTER = "make it shorter; `column in (...)` takes any number of values"
TOO_DEEP = f"it has more than {MOST_LEVELS} parts in each other or in a row: {SHORTER}"
APART = "import sys; from tasks.quality.keep import answer_apart; answer_apart(sys.stdin.read())"


def too_long(expression: str) -> str | None:
    """Say that an expression is too long to be looked at, or nothing."""
    if len(expression) <= MOST_CHARACTERS:
        return None
    return f"it has {len(expression):,} characters, expected at most {MOST_CHARACTERS:,}: {SHORTER}"


def is_small(expression: str) -> bool:
    """Say whether whatever an expression may be made into is small."""
    depth = deepest = 0
    for character in expression[:SMALL_CHARACTERS]:
        depth += (character in "([") - (character in ")]")
        deepest = max(deepest, depth)
    betweens = len(re.findall(r"\bbetween\b", expression, re.IGNORECASE))
    is_short = len(expression) <= SMALL_CHARACTERS
    return is_short and deepest <= SMALL_BRACKETS and betweens <= SMALL_BETWEENS


def judged_apart(expression: str, schema: pa.Schema) -> str | None:
    """Judge an expression in a process of its own; one that ends or is ended says what is wrong."""
    question = json.dumps([expression, base64.b64encode(schema.serialize()).decode()])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "POLARS_MAX_THREADS": "1",
    }
    try:
        done = subprocess.run(  # noqa: S603 (this Python, and code of ours)
            [sys.executable, "-P", "-c", APART], input=question, capture_output=True, text=True, check=True,
            timeout=10 * SECONDS, env=environment,
        )  # fmt: skip
        answer: str | None = json.loads(done.stdout)
    except (subprocess.SubprocessError, ValueError):
        return f"polars cannot read it in {SECONDS} seconds with {MEMORY >> 30} GiB of memory: {SHORTER}"
    return answer


def answer_within_bounds(question: str, judge: Callable[[str, pa.Schema], str | None]) -> str:
    """Judge an expression with little time and memory, in the process that was started for it."""
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ValueError, OSError):  # a system that has no such limit, or a lower one
            resource.setrlimit(kind, (most, most))
    expression, schema = json.loads(question)
    return json.dumps(judge(expression, pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))))


def nodes_of(tree: Any) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the mappings of polars' tree as JSON, each with its level, without recursion."""
    left = [(tree, 0)]
    while left:
        node, level = left.pop()
        if isinstance(node, dict):
            yield node, level
            left += [(below, level + 1) for kind, below in node.items() if kind != "Literal"]
        elif isinstance(node, list):
            left += [(below, level) for below in node]


def too_much(tree: Any) -> str | None:
    """Say what in a tree is too deep, or makes far more of a row than is there, or nothing."""
    growth, joined = 1, 0
    for node, level in nodes_of(tree):
        if level > 2 * MOST_LEVELS:  # each part of an expression is a mapping in a mapping
            return TOO_DEEP
        function = node.get("function")
        kinds = function.get("StringExpr", function.get("ListExpr")) if isinstance(function, dict) else None
        if isinstance(kinds, dict):
            if {"PadStart", "PadEnd"} & kinds.keys() and not 0 <= whole_number(
                node["input"][1]
            ) <= MOST_PADDED:
                return f"a text is padded to a written number of at most {MOST_PADDED:,} characters"
            if {"Replace", "Join"} & kinds.keys():
                written = written_text(node["input"][-1])
                if written is None:
                    return "what is put into a text has to be written out"
                growth *= max(1, len(written))
            joined += len(node["input"]) if "ConcatHorizontal" in kinds else 0
        joined += node.get("op") == "Plus"
    if growth > MOST_GROWTH:
        return (
            f"what is put into a text makes it up to {growth:,} times as long, expected at most {MOST_GROWTH}"
        )
    return f"it joins more than {MOST_JOINED} texts or numbers" if joined > MOST_JOINED else None


def whole_number(node: Any) -> int:
    """Return the number that is written in a node; less than any other where there is none."""
    literal = node.get("Literal", {}) if isinstance(node, dict) else {}
    number = literal.get("Dyn", literal.get("Scalar", {})) if isinstance(literal, dict) else {}
    value = next(iter(number.values()), None) if isinstance(number, dict) else None
    return value if isinstance(value, int) else -1


def written_text(node: Any) -> str | None:
    literal = node.get("Literal", {}) if isinstance(node, dict) else {}
    scalar = literal.get("Scalar", {}) if isinstance(literal, dict) else {}
    text = scalar.get("String") if isinstance(scalar, dict) else None
    return text if isinstance(text, str) else None
