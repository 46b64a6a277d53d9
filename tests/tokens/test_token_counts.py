"""Token counts are those of the tokenizer's own library, on every text that we could think of."""

import random
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import SHARED, TOKENIZER
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from tasks.errors import BadInput, BadRecipe
from tasks.tokens.byte_level import SPARSE, SURROGATES, character_classes, why_slow
from tasks.tokens.counter import Counter, load_tokenizer
from textkernels import bpe

NEOX = SHARED / "assets/20B_tokenizer.json"


def demo_tokenizer():
    return Tokenizer.from_file(str(TOKENIZER))


def tokenizer_with_runs():
    """The demo's tokenizer with added tokens as GPT-NeoX has them, and others that are no runs."""
    tokenizer = demo_tokenizer()
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(2, 25)])
    tokenizer.add_tokens([AddedToken("KEYWORD", normalized=True), AddedToken("\n\n\n", normalized=False)])
    return tokenizer


def tokenizer_with_some_runs():
    """The demo's tokenizer with tokens of three and four spaces, but none of two."""
    tokenizer = demo_tokenizer()
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in (3, 4)])
    return tokenizer


def neox_tokenizer():
    if not NEOX.exists():
        pytest.skip("needs ../shared/assets, which is not part of the project")
    return Tokenizer.from_file(str(NEOX))


@pytest.fixture(
    scope="module",
    params=[demo_tokenizer, tokenizer_with_runs, tokenizer_with_some_runs, neox_tokenizer],
    ids=["demo", "runs", "some-runs", "neox"],
)
def counter(request):
    tokenizer = request.param()
    assert why_slow(tokenizer) is None
    return Counter(tokenizer, character_classes(tokenizer))


def check(counter, texts):
    column = pa.array(texts, pa.large_string())
    fast = counter.count(column).tolist()
    exact = [len(one) for one in counter.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    assert fast == exact, [texts[i][:200] for i in range(len(texts)) if fast[i] != exact[i]][:3]


def test_every_code_point_alone_and_between_letters_digits_and_spaces(counter, request):
    """Where hardly any is assigned, all with one tokenizer and some with the others."""
    some = 1 if request.node.callspec.id == "demo" else 31
    codes = [c for c in (*range(SPARSE), *range(SPARSE, 0x110000, some)) if c not in SURROGATES]
    step = 997  # so many in one text: any of them wrong makes its text's count wrong
    groups = [codes[i : i + step] for i in range(0, len(codes), step)]
    check(counter, ["".join(map(chr, group)) for group in groups])
    check(counter, ["".join(f"a{chr(c)}1 {chr(c)}!" for c in group) for group in groups])


def test_runs_of_spaces_tabs_and_newlines(counter):
    runs = [" " * n for n in range(61)] + ["\t" * n for n in range(1, 9)] + ["\n" * n for n in range(1, 9)]
    runs += [
        " \n",
        "\n ",
        "  \n",
        "\n  ",
        "\t  ",
        "  \t",
        " \t \n  x",
        "\u00a0 ",
        " \u00a0",
        "  \u2003  ",
        "\r\n",
        "\r\n\r\n  ",
    ]
    texts = [
        left + run + right
        for run in runs
        for left in ("", "a", "1", "!", "é")
        for right in ("", "b", "2", "?", "'s", "漢")
    ]
    check(counter, texts)


def test_contractions_and_quotes(counter):
    endings = ["s", "t", "re", "ve", "m", "ll", "d", "S", "x", "r", "v", "l", "'", "", "é", " s"]
    check(
        counter,
        [
            f"{left}'{end}{right}"
            for left in ("", "a", "1", "!", " ", "  ", "\n")
            for end in endings
            for right in ("", "b", " ", "'")
        ],
    )


def test_combining_marks_that_the_normaliser_changes(counter):
    texts = [
        "e\u0301",
        "a\u0323\u0307",
        "a\u0307\u0323",
        "\u1100\u1161\u11a8",
        "\u212b",
        "\u2126",
        "\u212a",
        "\u037e",
        "\u0958",
    ]
    texts += [unicodedata.normalize("NFD", "Tiếng Việt, Ångström, 한국어, हिन्दी, עִבְרִית, ไทย")]
    check(
        counter,
        [
            f"{left}{text}{right}"
            for text in texts
            for left in ("", "x", " ", "  ")
            for right in ("", "y", " ", "\u0301")
        ],
    )


def test_added_tokens_inside_words_and_in_normalised_text(counter):
    tokens = ["<|endoftext|>", "<|padding|>", "KEYWORD", "\n\n\n", "[CLS]", "<|endoftext|", "\u212aEYWORD"]
    check(
        counter,
        [
            f"{left}{token}{right}"
            for token in tokens
            for left in ("", "a", "a ", "  ", "e\u0301")
            for right in ("", "b", " b", "   ")
        ],
    )
    check(counter, ["no token", "with <|endoftext|> inside", "none", "two <|padding|><|padding|>", "none"])


def test_long_texts_without_a_space(counter):
    chance = random.Random(5)
    letters = "".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(1 << 20))
    check(
        counter,
        [letters, "a" * 100_000, "漢字" * 50_000, "=" * 100_000, "0123456789" * 10_000, "\t" * 50_000],
    )
    check(counter, [letters[:n] for n in range(1, 200)] + ["=" * n for n in range(1, 200)])


def test_control_characters_and_empty_texts(counter):
    check(
        counter,
        ["", "\x00", "\x00\x00 a", "a\x1fb", "\x85", "\x1c\x1d", "", "\ufeffx", "\u200b \u200b", "\ufffd"],
    )


@settings(max_examples=300, deadline=None)
@given(
    texts=st.lists(
        st.text(alphabet=st.sampled_from("ab1!' \t\n  é漢\u0301\u00a0🙂'sLl"), max_size=60), max_size=5
    )
)
def test_any_mixture_of_awkward_characters(counter, texts):
    check(counter, texts)


def test_long_mixtures_of_awkward_pieces_wherever_64_bytes_end(counter):
    """Long texts are cut 64 bytes at a time; so every piece comes before, on and after the end of so many."""
    chance = random.Random(7)
    common = ["a", "word", "Letters", " ", " ", " the", "1", "2024", ".", ", ", "(", "x-y", "\n", "Sentence"]
    awkward = ["'s", "'ll", "'", " 'tis", "''", "  ", "   ", "     ", "\n\n", "\n  ", "\t", " \t ", "\r\n", "é",
               " é", "e\u0301", "\u00a0", "漢", "🙂", "!'t", "a" * 20, "=" * 70, "\x1f", "\x00", " \n", "\x7f"]  # fmt: skip
    texts = []
    for share in (0.02, 0.1, 0.5):
        for _ in range(700):
            pieces = chance.choices([common, awkward], [1 - share, share], k=chance.randrange(20, 120))
            texts.append("".join(chance.choice(kind) for kind in pieces))
    check(counter, texts)
    check(counter, ["a" * n + piece + "b c" * 40 for n in range(55, 70) for piece in awkward])


@settings(max_examples=200, deadline=None)
@given(texts=st.lists(st.text(max_size=60), max_size=4))
def test_any_text(counter, texts):
    check(counter, texts)


def test_threads_of_one_worker_share_a_counter():
    counter = Counter(demo_tokenizer(), character_classes(demo_tokenizer()))
    chance = random.Random(5)
    words = [chance.randbytes(chance.randrange(2, 12)).hex() for _ in range(200_000)]
    texts = [" ".join(chance.choices(words, k=2_000)) for _ in range(100)]
    expected = counter.count_by_library(texts).tolist()
    with ThreadPoolExecutor(4) as threads:
        for _ in range(5):
            counter.known = bpe.nothing_known()
            found = list(threads.map(counter.count, [pa.array(texts, pa.large_string())] * 4))
            assert [counts.tolist() for counts in found] == [expected] * 4


def test_full_table_only_costs_time(monkeypatch):
    monkeypatch.setattr(
        bpe,
        "nothing_known",
        lambda: bpe.Known(np.zeros((64, 4), np.uint64), np.zeros(200, np.uint8), np.zeros(2, np.int64)),
    )
    tokenizer = demo_tokenizer()
    counter = Counter(tokenizer, character_classes(tokenizer))
    chance = random.Random(2)
    check(
        counter, [" ".join(str(chance.randrange(10**9)) for _ in range(500)), "a longer one of words " * 50]
    )


def test_slices_of_arrow_columns_are_counted_where_they_begin(counter):
    texts = ["skipped é", "one two", "", "e\u0301 three", "skipped <|endoftext|>"]
    column = pa.array(texts, pa.large_string()).slice(1, 3)
    assert counter.count(column).tolist() == counter.count_by_library(texts[1:4]).tolist()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Whitespace()),
            "does not cut text by GPT-2's pattern",
        ),
        (
            lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=True)),
            "adds a space",
        ),
        (lambda t: setattr(t, "normalizer", normalizers.Lowercase()), "normaliser is Lowercase"),
        (lambda t: t.add_tokens([AddedToken("<mask>", lstrip=True)]), "takes what is beside it along"),
    ],
)
def test_other_tokenizers_are_counted_by_their_library_and_say_why(change, reason):
    tokenizer = demo_tokenizer()
    change(tokenizer)
    assert reason in why_slow(tokenizer)
    check(Counter(tokenizer, None), ["some text", "", "and  more"])


def test_tokenizer_that_is_no_bpe_is_counted_by_its_library():
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    assert "its model is WordLevel" in why_slow(tokenizer)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.string_view(), pa.int64()])
@pytest.mark.parametrize("by_library", [False, True])
def test_other_arrays_than_large_string_are_a_type_error_and_end_no_process(kind, by_library):
    tokenizer = demo_tokenizer()
    counter = Counter(tokenizer, None if by_library else character_classes(tokenizer))
    texts = pa.array([1, 2] if kind == pa.int64() else ["a b", "c d"], kind)
    for given_texts in (texts, pa.chunked_array([texts]), ["a b"]):
        with pytest.raises(TypeError, match="texts are one array of large_string, not"):
            counter.count(given_texts)
    assert counter.count(pa.array(["a b", "c d"], pa.large_string())).sum() > 0


LACKING = [
    models.WordLevel({"a": 0, "b": 1}, unk_token="[UNK]"),
    models.WordPiece({"a": 0, "b": 1}, unk_token="[UNK]"),
    models.Unigram([("a", -1.0), ("b", -2.0)]),
]


@pytest.mark.parametrize("model", LACKING, ids=lambda model: type(model).__name__)
def test_tokenizer_without_its_token_for_what_is_unknown_is_one_line(tmp_path, model):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "t.json"))
    with pytest.raises(BadRecipe, match=r"tokenizer: .*t\.json cannot be loaded: .*([Uu]nk|UNK)") as raised:
        load_tokenizer(str(tmp_path / "t.json"))
    assert len(str(raised.value).splitlines()) == 1
    with pytest.raises(BadInput, match=r"the tokenizer cannot count a text: .*([Uu]nk|UNK)"):
        Counter(tokenizer, None).count(pa.array(["a z"], pa.large_string()))
