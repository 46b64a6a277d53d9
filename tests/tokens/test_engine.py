"""Token ids are those of the tokenizer's own library, on every text that we could think of."""

import random
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_corpus import Corpus, build_here, prose, rows, write_rows
from tokenizer_kinds import TOKENIZERS, demo_tokenizer
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from zyda_flows.tasks.errors import BadInput, BadRecipe, WrongTokens
from zyda_flows.tasks.ingest import ingest
from zyda_flows.tasks.tokens import engine as engines
from zyda_flows.tasks.tokens.engine import Engine, EngineDiffers
from zyda_flows.tasks.tokens.stored import counted_by, load_tokenizer

SPARSE = 0x40000  # from here on hardly any code point is assigned
SURROGATES = range(0xD800, 0xE000)


@pytest.fixture(scope="module", params=TOKENIZERS.values(), ids=TOKENIZERS)
def engine(request):
    engine = Engine(request.param())
    assert engine.why_slow is None
    return engine


def check(engine, texts):
    found = engine.encode(pa.array(texts, pa.large_string()))
    exact = [one.ids for one in engine.judge.encode_batch_fast(texts, add_special_tokens=False)]
    wrong = [texts[i][:200] for i in range(len(texts)) if found.of(i).tolist() != exact[i]]
    assert not wrong, wrong[:3]
    assert found.counts.tolist() == list(map(len, exact))


@pytest.mark.slow
def test_every_code_point_alone_and_between_letters_digits_and_spaces(engine, request):
    """Where hardly any is assigned, all with one tokenizer and some with the others."""
    some = 7 if request.node.callspec.id == "demo" else 61
    codes = [c for c in (*range(SPARSE), *range(SPARSE, 0x110000, some)) if c not in SURROGATES]
    step = 997  # so many in one text: any of them wrong makes its text's count wrong
    groups = [codes[i : i + step] for i in range(0, len(codes), step)]
    check(engine, ["".join(map(chr, group)) for group in groups])
    check(engine, ["".join(f"a{chr(c)}1 {chr(c)}!" for c in group) for group in groups])


def test_runs_of_spaces_tabs_and_newlines(engine):
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
    check(engine, texts)


def test_contractions_and_quotes(engine):
    endings = ["s", "t", "re", "ve", "m", "ll", "d", "S", "x", "r", "v", "l", "'", "", "é", " s"]
    check(
        engine,
        [
            f"{left}'{end}{right}"
            for left in ("", "a", "1", "!", " ", "  ", "\n")
            for end in endings
            for right in ("", "b", " ", "'")
        ],
    )


def test_combining_marks_that_the_normaliser_changes(engine):
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
        engine,
        [
            f"{left}{text}{right}"
            for text in texts
            for left in ("", "x", " ", "  ")
            for right in ("", "y", " ", "\u0301")
        ],
    )


def test_added_tokens_inside_words_and_in_normalised_text(engine):
    tokens = ["<|endoftext|>", "<|padding|>", "KEYWORD", "\n\n\n", "[CLS]", "<|endoftext|", "\u212aEYWORD"]
    check(
        engine,
        [
            f"{left}{token}{right}"
            for token in tokens
            for left in ("", "a", "a ", "  ", "e\u0301")
            for right in ("", "b", " b", "   ")
        ],
    )
    check(engine, ["no token", "with <|endoftext|> inside", "none", "two <|padding|><|padding|>", "none"])


@pytest.mark.slow
def test_long_texts_without_a_space(engine):
    chance = random.Random(5)
    letters = "".join(chance.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(1 << 20))
    check(
        engine,
        [letters, "a" * 100_000, "漢字" * 50_000, "=" * 100_000, "0123456789" * 10_000, "\t" * 50_000],
    )
    check(engine, [letters[:n] for n in range(1, 200)] + ["=" * n for n in range(1, 200)])


def test_control_characters_and_empty_texts(engine):
    check(
        engine,
        ["", "\x00", "\x00\x00 a", "a\x1fb", "\x85", "\x1c\x1d", "", "\ufeffx", "\u200b \u200b", "\ufffd"],
    )


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    texts=st.lists(
        st.text(alphabet=st.sampled_from("ab1!' \t\n  é漢\u0301\u00a0🙂'sLl"), max_size=60), max_size=5
    )
)
def test_any_mixture_of_awkward_characters(engine, texts):
    check(engine, texts)


@pytest.mark.slow
def test_long_mixtures_of_awkward_pieces_wherever_64_bytes_end(engine):
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
    check(engine, texts)
    check(engine, ["a" * n + piece + "b c" * 40 for n in range(55, 70) for piece in awkward])


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(texts=st.lists(st.text(max_size=60), max_size=4))
def test_any_text(engine, texts):
    check(engine, texts)


def test_contractions_in_letters_that_are_ascii_in_another_case(engine):
    """Where the pattern ignores case, the long s and the Kelvin sign may be of a contraction."""
    ends = [
        "\u017f",
        "\u017ft",
        "\u017fT A",
        "\u017fa\u017f",
        "re\u017f",
        "\u212a",
        "ll\u017f",
        "VE\u017f",
        "\u017f\u017f",
    ]
    check(
        engine,
        [
            f"{left}'{end}{right}"
            for left in ("", "a", " ", "A\u017f", "\u017f")
            for end in ends
            for right in ("", "b", "S ")
        ],
    )


def test_characters_that_only_a_later_unicode_knows(engine):
    """Whoever has other tables of Unicode sees letters or marks where the judge sees none."""
    codes = [
        *range(0x1AD2, 0x1AEB),
        0x1094A,
        *range(0x32000, 0x33480, 61),
        *range(0x2EBF0, 0x2EE5E, 31),
        0x1C89,
        0xA7CB,
        0x105C0,
    ]
    check(
        engine,
        [
            f"{left}{chr(code)}{right}"
            for code in codes
            for left in ("a", "'", "a'", " 1", "!")
            for right in ("", "s", "'s")
        ],
    )


@pytest.mark.slow
def test_threads_of_one_worker_share_an_engine():
    engine = Engine(demo_tokenizer())
    chance = random.Random(5)
    words = [chance.randbytes(chance.randrange(2, 12)).hex() for _ in range(20_000)]
    texts = pa.array([" ".join(chance.choices(words, k=2_000)) for _ in range(100)], pa.large_string())
    expected = Engine(demo_tokenizer(), is_exact=True).count(texts).tolist()
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(engine.count, [texts] * 8))
    assert [counts.tolist() for counts in found] == [expected] * 8


def test_texts_are_encoded_in_batches_of_some_bytes(engine, monkeypatch):
    monkeypatch.setattr(engines, "BATCH_BYTES", 100)
    check(engine, ["", "", "a" * 99, "b", "", "long words " * 50, "'\u017f x", "", "c" * 100, "d e" * 30, ""])
    check(engine, [])
    check(engine, [""])


def test_slices_of_arrow_columns_are_counted_where_they_begin(engine):
    texts = ["skipped é", "one two", "", "e\u0301 three", "skipped <|endoftext|>"]
    column = pa.array(texts, pa.large_string()).slice(1, 3)
    exact = engine.judge.encode_batch_fast(texts[1:4], add_special_tokens=False)
    assert engine.count(column).tolist() == [len(one) for one in exact]


SLOW = [
    (models.WordLevel({"a": 0, "?": 1}, unk_token="?"), "its model is WordLevel"),
    (models.WordPiece({"a": 0, "?": 1}, unk_token="?"), "its model is WordPiece"),
    (models.Unigram([("a", -1.0), ("?", -2.0)], unk_id=1), "its model is Unigram"),
    (models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], dropout=1.0), "drops merges by chance"),
]


@pytest.mark.parametrize(("model", "reason"), SLOW, ids=[reason for _, reason in SLOW])
def test_other_tokenizers_are_counted_by_their_library_and_say_why(model, reason):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    engine = Engine(tokenizer)
    assert reason in engine.why_slow
    assert reason in counted_by(tokenizer)
    check(engine, ["ab a b", "", "ab"])


CHANGES = {
    "Whitespace": lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.Whitespace()),
    "prefix space": lambda t: setattr(t, "pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "Lowercase": lambda t: setattr(t, "normalizer", normalizers.Lowercase()),
    "NFKC": lambda t: setattr(t, "normalizer", normalizers.NFKC()),
    "lstrip": lambda t: t.add_tokens([AddedToken("<mask>", lstrip=True)]),
    "single word": lambda t: t.add_tokens([AddedToken("fox", single_word=True)]),
    "truncation": lambda t: t.enable_truncation(3),
    "padding": lambda t: t.enable_padding(length=50),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_tokenizers_with_other_settings_have_the_same_ids_whichever_library_counts(change):
    tokenizer = demo_tokenizer()
    change(tokenizer)
    texts = [*engines.WORDS, "a <mask> b", "a  <mask>", "foxes fox", "", "ǅ ﬁ K"]
    check(Engine(tokenizer), [*texts, *map(str.lower, texts), "two\nlines  "])


@pytest.mark.parametrize("kind", [pa.string(), pa.binary(), pa.string_view(), pa.int64()])
@pytest.mark.parametrize("is_exact", [False, True])
def test_other_arrays_than_large_string_are_a_type_error_and_end_no_process(kind, is_exact):
    engine = Engine(demo_tokenizer(), is_exact=is_exact)
    texts = pa.array([1, 2] if kind == pa.int64() else ["a b", "c d"], kind)
    for given_texts in (texts, pa.chunked_array([texts]), ["a b"]):
        with pytest.raises(TypeError, match="texts are one array of large_string, not"):
            engine.count(given_texts)
    assert engine.count(pa.array(["a b", "c d"], pa.large_string())).sum() > 0


def wrong_where(word):
    """Return a library that gives other tokens for texts with a word."""
    right = engines.flat

    def flat(fast, strings):
        return right(fast, [text.replace(word, f"{word}!") for text in strings])

    return flat


def test_one_document_in_some_is_compared_with_what_the_judge_says(monkeypatch):
    monkeypatch.setattr(engines, "flat", wrong_where("wrong"))
    texts = ["wrong" if i == 700 else "right" for i in range(2 * engines.ONE_OF)]
    engine = Engine(demo_tokenizer())
    engine.encode(pa.array(texts, pa.large_string()))  # it is none of those that are compared
    for before in (0, 1, engines.ONE_OF - 1, engines.ONE_OF):
        engine = Engine(demo_tokenizer())
        for text in texts[:before]:
            engine.encode(pa.array([text.replace("wrong", "right")], pa.large_string()))
        at = -before % engines.ONE_OF
        with pytest.raises(EngineDiffers):
            engine.encode(pa.array([*["right"] * at, "wrong", *["right"] * 5], pa.large_string()))


class PanicException(BaseException):
    """As a panic of Rust comes to Python: it is no Exception."""


def test_panic_of_the_library_is_left_to_the_judge(monkeypatch):
    engine, right = Engine(demo_tokenizer()), engines.flat

    def panicking(fast, strings):
        if any("panic" in text for text in strings):
            raise PanicException
        return right(fast, strings)

    monkeypatch.setattr(engines, "flat", panicking)
    check(engine, ["a text", "a panic", ""])

    def interrupted(fast, strings):
        raise KeyboardInterrupt

    monkeypatch.setattr(engines, "flat", interrupted)
    with pytest.raises(KeyboardInterrupt):
        engine.count(pa.array(["a"], pa.large_string()))


@pytest.fixture
def nothing_remembered():
    """Have tokenizers probed anew in a test, and again after it."""
    engines.fast_form.cache_clear()
    yield
    engines.fast_form.cache_clear()


def test_tokenizer_of_which_a_probe_differs_is_left_to_its_library(monkeypatch, nothing_remembered):
    monkeypatch.setattr(engines, "flat", wrong_where("quick"))
    engine = Engine(demo_tokenizer())
    assert 'fastokens gives other ids for "The quick' in engine.why_slow
    check(engine, ["so quick"])


def corpus_with(folder, wrong, right):
    corpus = Corpus(folder)
    texts = {f"w{i}": f"wrong {prose(f'w{i}')}" for i in range(wrong)} | {
        f"r{i}": prose(f"r{i}") for i in range(right)
    }
    write_rows(folder / "in/many.jsonl", rows(**texts))
    corpus.recipe["sources"] = [{"name": "many", "files": ["in/many.jsonl"]}]
    return corpus


def test_piece_with_a_document_of_other_tokens_is_counted_again_by_the_judge(tmp_path, monkeypatch, caplog):
    corpus = corpus_with(tmp_path, wrong=1, right=30)
    exact = build_here(corpus.load(storage=str(tmp_path / "before")))
    monkeypatch.setattr(engines, "flat", wrong_where("wrong"))
    found = build_here(corpus.load())
    assert found == exact
    assert (
        "fastokens gives other tokens for 1 of its documents; all were counted by tokenizers" in caplog.text
    )


def test_source_with_too_many_of_them_ends_the_build_before_it_publishes(tmp_path, monkeypatch):
    corpus = corpus_with(tmp_path, wrong=2, right=30)
    monkeypatch.setattr(engines, "flat", wrong_where("wrong"))
    recipe = corpus.load()
    with pytest.raises(WrongTokens, match=r"source many: 2 of 32 documents have other tokens by fastokens"):
        build_here(recipe)
    assert not recipe.folder.files("published")
    with pytest.raises(WrongTokens):  # also when all is found made
        build_here(recipe)
    monkeypatch.setattr(ingest, "MAX_DIFFERING_SHARE", 0.5)
    monkeypatch.setenv("ZYDA_TOKENS", "exact")
    tokens = build_here(recipe)
    monkeypatch.undo()
    assert tokens == build_here(corpus.load(storage=str(tmp_path / "fast")))


LACKING = [
    models.WordLevel({"a": 0, "b": 1}, unk_token="[UNK]"),
    models.WordPiece({"a": 0, "b": 1}, unk_token="[UNK]"),
    models.Unigram([("a", -1.0), ("b", -2.0)]),
]


@pytest.mark.slow
@pytest.mark.parametrize("model", LACKING, ids=lambda model: type(model).__name__)
def test_tokenizer_without_its_token_for_what_is_unknown_is_one_line(tmp_path, model):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "t.json"))
    with pytest.raises(BadRecipe, match=r"tokenizer: .*t\.json cannot be loaded: .*([Uu]nk|UNK)") as raised:
        load_tokenizer(str(tmp_path / "t.json"))
    assert len(str(raised.value).splitlines()) == 1
    with pytest.raises(BadInput, match=r"the tokenizer cannot count a text: .*([Uu]nk|UNK)"):
        Engine(tokenizer).count(pa.array(["a z"], pa.large_string()))
