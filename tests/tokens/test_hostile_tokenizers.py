"""A hostile tokenizer.json is an error of `check`, and does not end the process."""

import json

import pytest
from bombs import run_bounded
from small_corpus import TOKENIZER

from zyda_flows.tasks.errors import BadRecipe
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.tokens.stored import load_tokenizer


def replacing(*pairs):
    """Return a normalizer with a sequence of replacements."""
    steps = [{"type": "Replace", "pattern": {"String": old}, "content": new} for old, new in pairs]
    return {"normalizer": {"type": "Sequence", "normalizers": steps}}


PADDING = {"direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0, "pad_token": "x"}
HOSTILE = {
    "letters": (replacing(*[("e", "e" * 1000)] * 3), "it was ended while it was tried"),
    "a rare letter": (replacing(*[("ꙮ", "ꙮ" * 1000)] * 3), "it was ended while it was tried"),
    "growth": (replacing(("ꙮ", "e" * 1000)), r"tokens of the 1 characters of 'ꙮ'"),
    "padding": (
        {"padding": {"strategy": {"Fixed": 4 * 10**9}, **PADDING}},
        "it was ended while it was tried",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_tokenizer_is_one_error(tmp_path, case):
    changes, said = HOSTILE[case]
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({**json.loads(TOKENIZER.read_text()), **changes}))
    with pytest.raises(BadRecipe, match=said), replaced_limits(tokenizer_memory=1 << 29):
        run_bounded(load_tokenizer, str(path))


def test_tokenizer_with_padding_of_512_is_used(tmp_path):
    path = tmp_path / "tokenizer.json"
    padding = {"padding": {"strategy": {"Fixed": 512}, **PADDING}}
    path.write_text(json.dumps({**json.loads(TOKENIZER.read_text()), **padding}))
    assert load_tokenizer(str(path)).get_vocab_size() > 0


def test_tokenizer_that_is_too_large_is_not_read(tmp_path):
    (tmp_path / "tokenizer.json").write_text("{}" + " " * 2000)
    with (
        pytest.raises(BadRecipe, match="it has 2,002 bytes, expected at most 1,000"),
        replaced_limits(tokenizer_bytes=1000),
    ):
        load_tokenizer(str(tmp_path / "tokenizer.json"))
