"""Measure judges by KenLM and by heads on embeddings of sentences, ours beside their libraries in the same run.

The models are stand-ins: a model of bigrams of the texts, and an encoder of the size of all-MiniLM-L6-v2 with
random weights, on which the speed does not depend. The documents are cut to the lengths of web pages. Seconds are
CPU time for the encoder, and wall time for KenLM, which runs in a process of its own.
"""

import itertools
import json
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import kenlm
import numpy as np
import pyarrow as pa
import torch
from safetensors.numpy import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from transformers import AutoTokenizer, BertConfig, BertModel

from benchmarks.classifier import cut_to_web_pages
from benchmarks.corpora import load_texts, megabytes_of
from benchmarks.harness import DEMO, REPOSITORY, Row, Size, Table, TextsFolder, benchmark, timed
from zyda_flows.tasks.quality.forms import judged_model, load_model
from zyda_flows.tasks.quality.kenlm_process import perplexity
from zyda_flows.tasks.recipe.judges import Judge

MAX_TOKENS, WIDTH, REPEAT, MOST_BIGRAMS = 256, 384, 3, 2_000_000


def write_bigrams(texts: list[str], file: Path) -> kenlm.Model:
    """Write an ARPA file of the words and bigrams of texts; return it as the library reads it."""
    words = Counter(word for text in texts for word in text.split())
    pairs = Counter(pair for text in texts for pair in itertools.pairwise(text.split()))
    bigrams, total = pairs.most_common(MOST_BIGRAMS), sum(words.values())
    with file.open("w") as lines:
        lines.write(f"\\data\\\nngram 1={len(words) + 3}\nngram 2={len(bigrams)}\n\n\\1-grams:\n")
        lines.write("-5\t<unk>\t0\n0\t<s>\t-0.3\n-1\t</s>\n")
        lines.writelines(f"{math.log10(times / total):.4f}\t{word}\t-0.3\n" for word, times in words.items())
        lines.write("\n\\2-grams:\n")
        lines.writelines(
            f"{math.log10(times / words[first]):.4f}\t{first} {second}\n"
            for (first, second), times in bigrams
        )
        lines.write("\n\\end\\\n")
    return kenlm.Model(str(file))


def write_encoder(folder: Path) -> tuple[SentenceTransformer, np.ndarray]:
    """Write an encoder with a linear head; return it as the library reads it, and the weights of the head."""
    tokenizer = AutoTokenizer.from_pretrained(REPOSITORY / "recipes/models/demo-quality")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer), hidden_size=WIDTH, num_hidden_layers=6, num_attention_heads=12,
        intermediate_size=4 * WIDTH, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    BertModel(config, add_pooling_layer=False).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    parts = [
        modules.Transformer(str(folder), max_seq_length=MAX_TOKENS),
        modules.Pooling(WIDTH),
        modules.Normalize(),
    ]
    library = SentenceTransformer(modules=parts)
    weights = np.random.default_rng(0).standard_normal((1, WIDTH)).astype(np.float32)
    save_file({"0.weight": weights, "0.bias": np.zeros(1, np.float32)}, folder / "head.safetensors")
    (folder / "head.json").write_text(json.dumps({"normalize": True}))
    return library, weights[0]


def compared(path: Path, theirs: Callable[[list[str]], np.ndarray], texts: list[str]) -> Row:
    """Return the speeds of a judge and of its library, and their largest difference."""
    judge = Judge(name="a", model=str(path), max_tokens=MAX_TOKENS)
    answers, column = load_model(judged_model(judge), MAX_TOKENS), pa.chunked_array([texts])
    ours, expected = answers(column)[0].to_numpy(zero_copy_only=False), theirs(texts)
    clock = time.perf_counter if path.is_file() else time.process_time
    ours_s, theirs_s = (
        min(spent)
        for spent in zip(
            *(
                (timed(lambda: answers(column), clock)[1], timed(lambda: theirs(texts), clock)[1])
                for _ in range(REPEAT)
            ),
            strict=True,
        )
    )
    difference = np.abs(ours - expected).max() / max(1, np.abs(expected).max())
    return {"documents": len(texts), "MB": megabytes_of(column), "documents/s": len(texts) / ours_s,
            "the library, documents/s": len(texts) / theirs_s, "times": theirs_s / ours_s,
            "largest difference": f"{difference:.1e}"}  # fmt: skip


@benchmark("judge_forms")
def measure(folder: TextsFolder = DEMO, documents: Size = 300) -> Iterator[Table]:
    torch.set_num_threads(1)
    whole = load_texts(folder, 20).to_pylist()
    with tempfile.TemporaryDirectory() as scratch:
        model = write_bigrams(whole[::2], Path(scratch) / "model.arpa")
        pages = cut_to_web_pages(whole, 20 * int(documents))
        rows = [{"judge": "KenLM, bigrams", "library": "kenlm", **compared(
            Path(scratch) / "model.arpa", lambda texts: np.array([perplexity(model, t) for t in texts]), pages,
        )}]  # fmt: skip
        (encoder := Path(scratch) / "encoder").mkdir()
        library, weights = write_encoder(encoder)
        rows.append({"judge": "head on embeddings", "library": "sentence-transformers", **compared(
            encoder, lambda texts: library.encode(texts) @ weights, pages[: int(documents)],
        )})  # fmt: skip
    yield Table("Judges beside their libraries, one core", rows)


if __name__ == "__main__":
    measure.main()
