"""Build a corpus on CPUs and on GPUs, compare all published files, and compare the labels of a quality model.

`make gpu-build` runs this where `.[gpu]` is installed. `zyda build` makes both corpora, without a model: their
files must be equal byte by byte. A model computes in bfloat16 on a GPU, so its labels are compared apart: of texts
whose label is clear on a CPU, 99.9 % must have the same label on a GPU.
"""

import filecmp
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.corpora import in_folders, load_texts, write_recipe, write_texts
from benchmarks.duplicates import SOURCES, batches, tenth_in_clusters
from benchmarks.gpu import gpu
from benchmarks.harness import DEMO, REPOSITORY, Row, Size, Table, TextsFolder, benchmark, run_tool, timed

MODEL, MAX_TOKENS = REPOSITORY / "recipes/models/demo-quality", 128
MARGIN, LEAST_EQUAL = 0.01, 0.999
TIMED = ("manifest.json", "files-*.parquet")  # have the times at which the input files were checked
ROUNDS = [{"shingle": "characters"}, {"shingle": "words"}]


def build_seconds(recipe: str, storage: Path, engine: str, **variables: str) -> float:
    """Build a corpus by `zyda build` with an engine; return its seconds. variables: of the environment."""
    command = [sys.executable, "-m", "zyda_flows", "build", recipe, "--storage", storage]
    return timed(lambda: run_tool(command, REPOSITORY, **{**variables, "ZYDA_ENGINE": engine}))[1]


def published_files(storage: Path) -> dict[str, Path]:
    """Return the published files of the corpora in a folder, by their paths, without TIMED."""
    files = (path for path in storage.glob("**/published/**/*") if path.is_file())
    return {str(path.relative_to(storage)): path for path in files if not any(map(path.match, TIMED))}


def different_files(folder: Path, other: Path) -> list[str]:
    """Return the paths of published files that are in one folder only, or have different bytes."""
    files, others = published_files(folder), published_files(other)
    both = files.keys() & others.keys()
    changed = {path for path in both if not filecmp.cmp(files[path], others[path], shallow=False)}
    return sorted((files.keys() ^ others.keys()) | changed)


def compare_builds(recipe: str, place: Path, **variables: str) -> Row:
    """Build on CPUs and on GPUs; return a row of results. variables: of the environment of the build on GPUs.

    Raises SystemExit if published files differ.
    """
    by_cpu = build_seconds(recipe, place / "cpu", "cpu")
    by_gpu = build_seconds(recipe, place / "gpu", "gpu", **variables)
    if different := different_files(place / "cpu", place / "gpu"):
        raise SystemExit(f"{len(different)} published files differ between CPUs and GPUs: {different[:5]}")
    files = published_files(place / "gpu").values()
    return {"compared": f"{len(files):,} published files, {sum(path.stat().st_size for path in files):,} bytes",
            "equal": "100%", "seconds on CPUs": by_cpu, "seconds on GPUs": by_gpu}  # fmt: skip


def equal_labels(by_gpu: Any, by_cpu: Any) -> tuple[int, int]:
    """Return the number of texts with a clear label on a CPU, and how many of them have that label on a GPU.

    by_gpu, by_cpu: the probabilities of the labels, (n, labels). A label is clear if its probability is more than
    MARGIN above the threshold at which another label becomes as probable.
    """
    ordered = np.sort(by_cpu, axis=1)
    is_clear = (ordered[:, -1] - ordered[:, -2]) / 2 > MARGIN
    is_equal = by_gpu.argmax(axis=1) == by_cpu.argmax(axis=1)
    return int(is_clear.sum()), int((is_clear & is_equal).sum())


def compare_labels(texts: list[str]) -> Row:
    """Classify texts on a CPU and on a GPU; return a row of results.

    Raises SystemExit if too many clear labels differ.
    """
    from zyda_flows.tasks.quality.torch_models import Classifier, probabilities_of

    models = {device: Classifier(MODEL, MAX_TOKENS, device=device) for device in ("cpu", "cuda")}
    answers = {
        device: timed(lambda model=model: probabilities_of(model.heads[0], model.logits(texts)))
        for device, model in models.items()
    }
    clear, equal = equal_labels(answers["cuda"][0], answers["cpu"][0])
    if equal < LEAST_EQUAL * clear:
        raise SystemExit(f"{clear - equal:,} of {clear:,} clear labels differ between the CPU and the GPU")
    return {"compared": f"{clear:,} clear labels of {len(texts):,} texts", "equal": f"{equal / max(1, clear):.2%}",
            "seconds on CPUs": answers["cpu"][1], "seconds on GPUs": answers["cuda"][1]}  # fmt: skip


@benchmark("gpu_build", as_worker=False)
def measure(folder: TextsFolder = DEMO, megabytes: Size = 500) -> Iterator[Table]:
    if not (name := gpu()):
        print("no GPU: NVIDIA's driver shows none, so nothing is built")
        return
    texts = load_texts(folder).to_pylist()
    with tempfile.TemporaryDirectory(prefix="zyda-bench-") as scratch:
        place = Path(scratch)
        write_texts(place, batches(tenth_in_clusters(texts, megabytes)))
        recipe = write_recipe(place, "both", in_folders(SOURCES), dedup=ROUNDS)
        rows = [compare_builds(recipe, place)]
    yield Table(f"CPUs and GPUs ({name})", [*rows, compare_labels(texts)])


if __name__ == "__main__":
    measure.main()
