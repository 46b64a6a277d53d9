"""Test invalid mixtures, failed mixes, and their error messages."""

from pathlib import Path

import pytest
from prefect.client.orchestration import get_client
from prefect.task_runners import ThreadPoolTaskRunner
from small_corpus import build_here, prose, rows, write_rows
from small_mixtures import (
    all_files,
    corpus_of,
    documents,
    mixed_in,
    mixture_file,
    run_here,
)

from zyda_flows.flows import mix as flow_module
from zyda_flows.tasks.errors import BadRecipe, Denied, NotConserved
from zyda_flows.tasks.mixing import formats
from zyda_flows.tasks.mixing.mixing import LOCK, mix_all
from zyda_flows.tasks.mixing.mixture import load_mixture
from zyda_flows.tasks.mixing.planning import inputs_of
from zyda_flows.tasks.storage import holding


def test_corpus_published_again_during_a_mix_raises(tmp_path, compiled):
    corpus = corpus_of(tmp_path / "corpus", documents=10)
    path = mixture_file(tmp_path, [corpus], budget={"tokens": 3000})

    def slow(jobs, step):
        if step == "files of ids":
            write_rows(tmp_path / "corpus/in/good-9.jsonl", rows(new=prose("new")))
            build_here(corpus.load())
        return run_here(jobs, step)

    with pytest.raises(Denied, match="another version of this corpus was published meanwhile; start again"):
        mixed_in(path, slow)
    assert not (tmp_path / "mixed/mixture/mixture.json").exists()
    mixed, _ = mixed_in(path)
    assert sum(part.documents + part.held_out for part in mixed.parts) == len(documents([corpus]))


BAD = {
    "unknown corpus": ({"corpora_": ["nowhere"]}, "nowhere: no corpus is published there"),
    "unknown source": ({"parts": [{"name": "a", "source": "bad", "weight": 1}]}, r"parts\[0\] a: there is no source bad"),
    "no documents": (
        {"parts": [{"name": "a", "where": "n_tokens > 99999", "weight": 1}]}, r"parts\[0\] a: it has no documents",
    ),
    "unknown column": (
        {"parts": [{"name": "a", "where": "quality > 1", "weight": 1}]}, r'where: source good: unable to find column "quality"',
    ),
    "zero weight": ({"parts": [{"name": "a", "weight": 0}]}, "the sum of the weights is 0"),
    "no budget": ({"budget": ...}, "parts with a `weight` need a `budget`"),
    "weight and epochs": ({"parts": [{"name": "a", "weight": 1, "epochs": 1}]}, "both `weight` and `epochs`"),
    "too many tokens": ({"budget": {"tokens": "1B"}}, r"requires 500,000,000 tokens, but 4 epochs have [0-9,]+; lower"),
    "too many tokens for all parts": (
        {"budget": {"tokens": "1B"}, "shortfall": "share"}, "budget: 1,000,000,000 tokens, but all parts have",
    ),
    "unknown token": ({"end": "<eos>"}, "end: the tokenizer has no token '<eos>'; its special tokens are <|endoftext|>"),
    "packed without end": ({"end": None, "packed": 64}, "packed: sequences are filled with the end-of-document token"),
    "repeated name of a part": ({"parts": [{"name": "a", "weight": 1}] * 2}, "two parts have the name a"),
    "repeat": ({"repeat": {2: 1}}, "the smallest size must be 1"),
    "format": ({"formats": ["mosaic"]}, "formats"),
    "formats": ({"formats": ["olmo", "olmo"]}, "mixture: formats: a format is listed twice"),
    "files": ({"file_gib": 1e-6, "budget": {"tokens": "50M"}, "max_epochs": 1000}, r"makes [0-9,]+ files, more than 32,767"),
    "tiny files": ({"file_gib": 1e-300}, "file_gib: expected at least"),
    "unknown": ({"shuffle": True}, "shuffle: unknown field"),
    "misspelled field": ({"fomats": ["olmo"]}, "fomats: unknown field; did you mean formats?"),
    "misspelled field of a part": ({"parts": [{"name": "a", "wieght": 1}]}, r"parts\[0\].wieght: unknown field; did you mean weight"),
    "field of a recipe": ({"sources": []}, "sources: unknown field$"),
    "tokenizer": ({"tokenizer": "none.json"}, "cannot be loaded"),
    "tokens": ({"budget": {"tokens": "many"}}, "expected a number of tokens"),
    "too few tokens": ({"budget": {"tokens": 1}}, "nothing would be written"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_invalid_mixture_raises_one_line_before_writing(corpora, tmp_path, case):
    changes, expected = dict(BAD[case][0]), BAD[case][1]
    with pytest.raises((BadRecipe, Denied), match=expected) as raised:
        mixed_in(mixture_file(tmp_path, changes.pop("corpora_", corpora), **changes))
    assert all("\n" not in fault for fault in raised.value.faults)
    assert not (tmp_path / "mixed/mixture/mixture.json").exists()


def test_faults_that_are_noticed_after_reading_have_their_lines(corpora, tmp_path):
    parts = [
        {"name": "a", "source": "good", "weight": 1},
        {"name": "b", "where": "quality > 1", "weight": 1},
        {"name": "c", "source": "bad", "weight": 1},
    ]
    for changes, field in (
        ({"parts": parts}, "source: bad"),
        ({"parts": parts}, "where: quality"),
        ({"budget": {"tokens": 1}}, "tokens: 1"),
        ({"end": "<eos>"}, "end: <eos>"),
    ):
        path = mixture_file(tmp_path, corpora, **changes)
        with pytest.raises(BadRecipe) as raised:
            mixed_in(path)
        lines = path.read_text().splitlines()
        (number,) = (number for number, line in enumerate(lines, 1) if field in line)
        entry = (
            next(at for at in range(number, 0, -1) if lines[at - 1].startswith("- "))
            if field == "source: bad"
            else number
        )
        assert any(fault.startswith(f"{path}:{entry}: ") for fault in raised.value.faults), (
            raised.value.faults
        )


def test_unwritable_folder_raises(corpora, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Denied, match="nothing can be written there"):
        mixed_in(mixture_file(tmp_path, corpora, storage=str(tmp_path / "file")))


def test_failed_lock_raises_and_missing_support_warns(corpora, tmp_path, monkeypatch):
    inputs = inputs_of(load_mixture(str(mixture_file(tmp_path, corpora))))
    lock = Path(inputs.folder.path(LOCK))
    lock.mkdir(parents=True)
    with pytest.raises(Denied, match=f"{inputs.folder.url}: IsADirectoryError"):
        mix_all(inputs, run_here)
    lock.rmdir()

    def no_locks(self, **_):
        raise NotImplementedError

    warnings = []
    monkeypatch.setattr(holding, "warn", warnings.append)
    monkeypatch.setattr(holding.FileLock, "acquire", no_locks)
    assert mix_all(inputs, run_here).outputs
    assert warnings == [
        f"{inputs.folder.url}: this disk does not support locks, so do not start a second mix there"
    ]


def test_mixture_in_the_folder_of_a_corpus_raises(tmp_path, compiled):
    corpus = corpus_of(tmp_path / "corpus", documents=5)
    path = mixture_file(tmp_path, [corpus], storage=corpus.recipe["storage"], name="small")
    before = all_files(tmp_path / "corpus/out")
    with pytest.raises(BadRecipe, match="a corpus is stored there; choose another name"):
        mixed_in(path)
    assert all_files(tmp_path / "corpus/out") == before


@pytest.mark.parametrize("ending", [".bin", ".ds", ".npy"])
def test_file_shorter_than_its_tokens_raises_before_publishing(corpora, tmp_path, monkeypatch, ending):
    """The sizes of the files are compared with the number of written tokens."""
    close = formats.Megatron.close

    def forgetful(self):
        close(self)
        for file in self.index.parent.parent.glob(f"*/*{ending}"):
            file.write_bytes(file.read_bytes()[:-2])

    monkeypatch.setattr(formats.Megatron, "close", forgetful)
    with pytest.raises(NotConserved, match=r"bytes, but [0-9,]+ tokens were written"):
        mixed_in(mixture_file(tmp_path, corpora, formats=["olmo", "datatrove", "megatron"]))
    assert not (tmp_path / "mixed/mixture/mixture.json").exists()


def test_page_of_a_failed_mixture_shows_the_reason(corpora, tmp_path, server, monkeypatch):
    def broken(inputs, run_jobs):
        run_jobs([], "tokens")
        raise Denied("the disk is full")

    monkeypatch.setattr(flow_module, "mix_all", broken)
    path = str(mixture_file(tmp_path, corpora, name="failing"))
    with pytest.raises(Denied):
        flow_module.mix.with_options(task_runner=ThreadPoolTaskRunner())(path)
    with get_client(sync_client=True) as client:
        (page,) = [
            artifact.data
            for artifact in client.read_artifacts(limit=200)
            if (artifact.key or "").startswith("failing-mix-")
        ]
    assert page.startswith("# failing: failed")
    assert "the disk is full" in page
    assert "| tokens | " in page
