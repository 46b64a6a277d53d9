"""A model of KenLM judges documents: perplexities equal KenLM's on single texts, and plain Python's from the ARPA file."""

import base64
import math
import os
import re
import signal
import sys
import zlib

import kenlm
import numpy as np
import pyarrow as pa
import pytest
from small_corpus import build_here, table_of

from zyda_flows.tasks.errors import BadInput
from zyda_flows.tasks.limits import replaced_limits
from zyda_flows.tasks.quality import kenlm_models
from zyda_flows.tasks.quality.forms import judged_model, load_model
from zyda_flows.tasks.recipe.judges import Judge

# The log10 probability and back-off of each n-gram of words.
NGRAMS = [
    {"<unk>": (-2.2, 0), "<s>": (0, -0.3), "</s>": (-0.9, 0), "the": (-0.7, -0.25), "cat": (-1.1, -0.4), "sat": (-1.3, -0.2)},
    {"<s> the": (-0.2, -0.15), "the cat": (-0.5, -0.1), "cat sat": (-0.4, -0.05), "sat </s>": (-0.35, 0)},
    {"<s> the cat": (-0.12,), "the cat sat": (-0.22,)},
]  # fmt: skip
TEXTS = [
    "the cat sat",
    "the cat sat\nthe  dog\tsat\n\n cat\r",
    "",
    "\n",
    "the\u00a0cat sat",
    "das Haus, <s> the cat </s>",
    "cat " * 5000,
    "the\0cat \u2028 the",
]

# What KenLM's `build_binary trie` makes of the ARPA file, compressed.
BINARY = (
    "c-qU&O)OBz$yLZGDJihh*U!#KO-##7%}LQq&d=3P&QD2INXswEO)OC;OD!tS%+FIW<zhg9274f}pAks>2Lg}?BUFYNOdhajf"
    "{KAK8&r-3N;4su#0sSg>J;}{wv{rduBb6qveTB}%K84Ww)jEz{+;d5ogZ+PYcF~#wMN}~2~6MFGdu@C4nZ=CVb;u<`(W&}v}"
    "OCxp7BBAr|k!+XN2qT0m`4*2Xl+Du`y7-VIMOCDqvy24sz1czL^>ue_b?lW~4ljp8)j851_#JX=!O{^V8DW*27eCz!;^rT%V"
    "r??%2nUY>rK7UbY>BO|czAabgLBjXsc(3}lpKq%r^i->_Ke"
)


def arpa():
    counts = [f"ngram {order}={len(ngrams)}" for order, ngrams in enumerate(NGRAMS, 1)]
    lines = ["\\data\\", *counts, ""]
    for order, ngrams in enumerate(NGRAMS, 1):
        lines.append(f"\\{order}-grams:")
        lines += [f"{p}\t{words}\t{b[0]}" if b else f"{p}\t{words}" for words, (p, *b) in ngrams.items()]
        lines.append("")
    return "\n".join([*lines, "\\end\\", ""])


def log10_of(words, word):
    """Return the log10 probability of a word after others: of the longest n-gram, with the back-offs of longer contexts."""
    for start in range(max(0, len(words) - 2), len(words) + 1):
        ngram = " ".join([*words[start:], word])
        if ngram in NGRAMS[len(words) - start]:
            return NGRAMS[len(words) - start][ngram][0] + backed_off(words, start)
    return NGRAMS[0]["<unk>"][0] + backed_off(words, len(words))


def backed_off(words, start):
    contexts = [words[i:] for i in range(max(0, len(words) - 2), start)]
    return sum(NGRAMS[len(context) - 1].get(" ".join(context), (0, 0))[1] for context in contexts)


def expected_of(text):
    score = tokens = 0
    for line in text.split("\n"):
        words = ["<s>"]
        for word in [*line.split(" "), "</s>"]:
            if word:
                score += log10_of(words, word if word in NGRAMS[0] else "<unk>")
                words.append(word if word in NGRAMS[0] else "<unk>")
                tokens += 1
    return 10 ** (-score / tokens)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("kenlm") / "model.arpa"
    path.write_text(arpa())
    return path


def answers_of(path, texts):
    model = judged_model(Judge(name="a", model=str(path)))
    (field,) = model.added_columns
    (answers,) = load_model(model, 64)(pa.chunked_array([texts]))
    assert (field.name, field.type, answers.type) == ("a_perplexity", pa.float32(), pa.float32())
    return answers.to_numpy()


def test_perplexities_are_those_of_the_numbers_in_the_file(model):
    texts = [
        "the cat sat",
        "the cat sat\nthe dog sat\n\ncat",
        "",
        "the the cat",
        "cat sat the cat sat",
        "x y",
    ]
    np.testing.assert_allclose(answers_of(model, texts), [expected_of(text) for text in texts], rtol=1e-6)


def test_perplexities_are_those_of_kenlm_on_single_texts(model):
    theirs = kenlm.Model(str(model))
    for text, answer in zip(TEXTS, answers_of(model, TEXTS), strict=True):
        score = length = 0
        for line in text.split("\n"):  # as CCNet's DocLM
            score += theirs.score(line)
            length += len(line.split()) + 1
        assert answer == np.float32(10.0 ** (-score / length))
    assert answers_of(model, TEXTS[:1])[0] == pytest.approx(theirs.perplexity(TEXTS[0]))


def test_binary_file_is_known_by_its_first_bytes_also_on_the_hub(model, tmp_path, monkeypatch):
    cached = tmp_path / "snapshots/0123abc/lm.bin"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(zlib.decompress(base64.b85decode(BINARY)))
    expected = answers_of(model, TEXTS).tolist()
    assert answers_of(cached, TEXTS).tolist() == expected
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda *names, **options: str(cached))
    judged = judged_model(Judge(name="a", model="lab/models/lm.bin"))
    assert (judged.form, judged.revision) == ("kenlm", "0123abc")
    assert load_model(judged, 64)(pa.chunked_array([TEXTS]))[0].to_pylist() == expected


def test_build_publishes_perplexities_and_buckets(corpus, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # which this form does not need
    judges = [{"name": "ccnet", "model": str(model), "at": "ingest", "keep": "ccnet_perplexity < 1e9"}]
    bucket = {"of": ["ccnet_perplexity"], "count": 10, "weights": "documents", "within": "source"}
    recipe = corpus.load(judges=judges, bucket=bucket)
    build_here(recipe)
    rows = table_of(recipe, "best")
    scores = np.array([row["ccnet_perplexity"] for row in rows])
    theirs = kenlm.Model(str(model))
    for row in rows:
        lines = row["text"].split("\n")
        tokens = sum(len(line.split()) + 1 for line in lines)
        assert row["ccnet_perplexity"] == np.float32(10 ** (-math.fsum(map(theirs.score, lines)) / tokens))
        assert (row["bucket"] < 3) == (
            row["ccnet_perplexity"] < np.percentile(scores, 30, method="inverted_cdf")
        )


def fault_of(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadInput) as raised:
        judged_model(Judge(name="a", model=str(path)))
    fault = str(raised.value)
    assert fault.startswith(f"judge a.model: {path}: ")
    assert "\n" not in fault
    return fault


def test_invalid_arpa_files_are_one_error_each(tmp_path):
    path, text = tmp_path / "own.arpa", arpa()
    assert 'first non-empty line was "hello world" not \\data\\' in fault_of(path, "hello world\n" * 99)
    assert "End of file" in fault_of(path, "")
    assert "Was expecting n-gram header" in fault_of(path, text[: len(text) // 2])
    assert "Failed to allocate" in fault_of(path, text.replace("ngram 3=2", "ngram 3=99999999999"))
    assert 'Could not parse "nan"' in fault_of(path, text.replace("-0.5\tthe cat", "nan\tthe cat"))
    assert "<unk>" in fault_of(path, text.replace("-2.2\t<unk>\t0\n", "").replace("1=6", "1=5"))
    assert "is inf, expected a finite number" in fault_of(path, text.replace("-2.2\t<unk>", "-1e30\t<unk>"))


def test_invalid_binary_files_are_one_error_each(tmp_path):
    path, begin = tmp_path / "own.bin", b"mmap lm http://kheafield.com/code "
    zeros = bytes(4096)
    assert "Binary file has version 4" in fault_of(path, begin + b"format version 4\n\0" + zeros)
    assert "the test values don't match" in fault_of(path, begin + b"format version 5\n\0" + zeros)
    assert "did not finish building" in fault_of(path, begin + b"incomplete\n" + zeros)
    assert "its magic number is missing" in fault_of(path, b"mmap" + zeros)  # as for any file of fastText


def test_limits_are_one_error_each(model):
    judge = Judge(name="a", model=str(model))
    with replaced_limits(model_bytes=100), pytest.raises(BadInput, match="more than 100 bytes"):
        judged_model(judge)
    with (
        replaced_limits(kenlm_memory=1 << 20),
        pytest.raises(BadInput, match=r"KenLM ended by .* while it loaded the file \(1 MiB and 60 seconds"),
    ):
        judged_model(judge)
    with pytest.raises(BadInput, match="it returns scores and has no labels; remove `probabilities`"):
        judged_model(Judge(name="a", model=str(model), probabilities=True))


def test_crash_of_kenlm_is_one_error(model, tmp_path, monkeypatch):
    program = tmp_path / "crashes.py"
    program.write_text("import os\nprint('null', flush=True)\ninput()\nos.abort()")
    judged = judged_model(Judge(name="a", model=str(model)))
    answers, texts = load_model(judged, 64), pa.chunked_array([TEXTS])
    before = answers(texts)
    process = answers.__self__
    os.kill(process.process.pid, signal.SIGKILL)  # as a system without memory does
    process.process.wait()
    assert answers(texts) == before
    monkeypatch.setattr(kenlm_models, "PROGRAM", program)
    process.end()
    with pytest.raises(
        BadInput, match=rf"model {re.escape(str(model))}: KenLM ended by SIGABRT while it read a text"
    ):
        answers(texts)
    monkeypatch.undo()
    assert answers(texts) == before


def test_process_that_is_killed_while_it_reads_is_started_once_more(model, tmp_path, monkeypatch):
    texts = pa.chunked_array([TEXTS])
    before = load_model(judged_model(Judge(name="a", model=str(model))), 64)(texts)
    program, once = tmp_path / "ends_once.py", tmp_path / "once"
    program.write_text(
        f"import os, runpy\nonce = {str(once)!r}\nif not os.path.exists(once):\n    open(once, 'w').close()\n"
        f"    print('null', flush=True)\n    input()\n    os.abort()\n"
        f"runpy.run_path({str(kenlm_models.PROGRAM)!r}, run_name='__main__')"
    )
    monkeypatch.setattr(kenlm_models, "PROGRAM", program)
    process = kenlm_models.KenlmProcess(model)
    assert process.answers(texts) == before
    assert once.exists()


def test_missing_library_is_one_error(model, monkeypatch):
    monkeypatch.setattr(kenlm_models, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"kenlm not installed; pip install 'zyda-flows\[kenlm\]'"):
        judged_model(Judge(name="a", model=str(model)))
