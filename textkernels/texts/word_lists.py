"""Read lists of terms from the bytes of a text file or a JSON file."""

import json


def word_list(content: bytes, name: str) -> tuple[str, ...]:
    """Read a list of terms: from JSON if the name ends in .json, else from text with a term in each line.

    JSON is a list, or an object with one list in it. In text, lines that begin with # are comments. Repeated terms
    are returned once. Raises ValueError.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"word list {name}: expected UTF-8: {error}") from error
    terms = json_terms(text, name) if name.lower().endswith(".json") else lines_of(text)
    if not terms:
        raise ValueError(f"word list {name}: expected at least one term, got none")
    return tuple(dict.fromkeys(terms))


def lines_of(text: str) -> list[str]:
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return [line for line in lines if line.strip() and not line.startswith("#")]


def json_terms(text: str, name: str) -> list[str]:
    try:
        said = json.loads(text)
    except ValueError as error:
        raise ValueError(f"word list {name}: expected JSON: {error}") from error
    except RecursionError as error:
        raise ValueError(f"word list {name}: its JSON is nested too deeply") from error
    lists = (
        [value for value in said.values() if isinstance(value, list)] if isinstance(said, dict) else [said]
    )
    if len(lists) != 1 or not isinstance(lists[0], list):
        raise ValueError(
            f"word list {name}: expected a list of strings, or an object with a single such list"
        )
    for term in lists[0]:
        if not isinstance(term, str) or not term or any("\ud800" <= one <= "\udfff" for one in term):
            raise ValueError(
                f"word list {name}: expected a text of one or more characters, got {term!r:.100}"
            )
    return lists[0]
