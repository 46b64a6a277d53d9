"""Models of n-grams by KenLM, as CCNet's: a file .arpa, .binary or .klm, or a .bin that begins as KenLM's files do.

This module is a form of `tasks.quality.forms`. A judge adds one column, the perplexity of the text in float32, not
rounded. A lower perplexity is better: the text is more like the texts with which the model was trained.

The definition is that of CCNet (arXiv:1911.00359; `DocLM` of cc_net/perplexity.py). Each line of the text is a
sentence with a beginning and an end. The perplexity is 10 ** (-score / tokens): the score is the sum of KenLM's
log10 probabilities of all lines, and the tokens are the words of all lines and the end of each line. KenLM splits a
line into words at the white space of ASCII, and CCNet counts words between all white space of Unicode; so do we.
An empty text is one empty line. The text is not normalised: CCNet first removes accents, replaces punctuation,
writes lower case and 0 for digits, and splits the text by SentencePiece, which its authors' models require.

KenLM trusts its files: a damaged file can crash it while it loads them or reads a text. So it runs in a process of
its own (`tasks.quality.kenlm_process`), with limits of memory and time.
"""

import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from signal import Signals
from subprocess import DEVNULL, PIPE
from threading import Lock
from typing import Any
from weakref import finalize

import numpy as np
import pyarrow as pa

from zyda_flows.tasks.errors import BadInput, one_line
from zyda_flows.tasks.limits import limits
from zyda_flows.tasks.quality.encoder_files import Fault
from zyda_flows.tasks.quality.fasttext_models import digest_of_model, locate, precision
from zyda_flows.tasks.quality.heads import ModelHead

__all__ = [
    "EXPECTED", "MODULES", "check", "columns", "digest_of_model", "is_named", "load", "locate", "missing_libraries",
    "precision",
]  # fmt: skip

ENDINGS = (".arpa", ".arpa.bin", ".binary", ".klm")
BEGINNING = b"mmap lm http://kheafield.com/code"  # of KenLM's binary files of any version
EXPECTED = "expected a file .arpa, .bin, .binary or .klm, or owner/repository/file of the hub"
MODULES: tuple[str, ...] = ()  # which workers share
TRIED = (
    "",
    "<unk> " * 100,
    "The quick brown fox jumps over the lazy dog.",
    "Füße, café, 漢字, हिन्दी\n\n🙂 0123",
)
PROGRAM = Path(__file__).with_name("kenlm_process.py")
GROWTH = 4  # the most memory for hash tables of an ARPA file, divided by its size; short words need most
AHEAD = 256  # texts that the process has not answered; their answers fit into the buffer of a pipe
AGAIN = "copy the file again, or make it again with KenLM"


def missing_libraries() -> str:
    return "" if find_spec("kenlm") else "kenlm not installed; pip install 'zyda-flows[kenlm]'"


def is_named(name: str) -> bool:
    """Return whether a name in a recipe is the name of such a model; of a local file .bin by its first bytes."""
    if name.endswith(ENDINGS) or not name.endswith(".bin"):
        return name.endswith(ENDINGS)
    with suppress(OSError), Path(name).expanduser().open("rb") as file:
        return file.read(len(BEGINNING)) == BEGINNING
    return False


def check(path: Path) -> tuple[ModelHead, ...]:
    """Load a model and judge some texts; return its head, which has no labels. Raises Fault."""
    if missing := missing_libraries():  # a .bin of the hub is known to be KenLM's after its download
        raise Fault(missing)
    if path.stat().st_size > limits().model_bytes:
        raise Fault(f"it has more than {limits().model_bytes:,} bytes")
    process = KenlmProcess(path)
    try:
        for text in TRIED:
            if not math.isfinite(answer := process.perplexities([text])[0]):
                reason = "train it with a probability for unknown words, <unk>" if "<unk>" in text else AGAIN
                raise Fault(
                    f"the perplexity of the text {text[:20]!r} is {answer}, expected a finite number; {reason}"
                )
    finally:
        process.end()
    return (ModelHead(),)


def columns(heads: tuple[ModelHead, ...], judge: str, *, every_label: bool = False) -> list[pa.Field]:
    """Return the column of the answers."""
    return [pa.field(f"{judge}_perplexity", pa.float32())]


def load(
    path: Path, max_tokens: int, device: str | None, *, every_label: bool = False
) -> Callable[[pa.ChunkedArray], list[pa.Array]]:
    """Load a model; return a function that takes texts and returns the column of the answers."""
    try:
        return KenlmProcess(path).answers
    except Fault as error:
        raise BadInput(f"model {path}: {error}") from error


class KenlmProcess:
    """A process with a loaded model. It ends with this object.

    Raises Fault if it cannot load the model within the limits.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.lock = path, Lock()
        self.start()

    def start(self) -> None:
        memory = limits().kenlm_memory + GROWTH * self.path.stat().st_size
        allowed = [str(memory), str(limits().kenlm_seconds)]
        command = [sys.executable, "-P", str(PROGRAM), str(self.path), *allowed]
        self.process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL)  # noqa: S603
        self.end = finalize(self, end, self.process)
        if (fault := self.read("loaded the file")) is not None:
            raise Fault(f"KenLM cannot read it: {reason_of(fault)}; {AGAIN}")

    def perplexities(self, texts: Sequence[str]) -> list[float]:
        """Return the perplexities of at most AHEAD texts, float32; not finite for an invalid model.

        Raises Fault if the process ends.
        """
        with suppress(OSError):  # the process has ended
            for text in texts:
                self.process.stdin.write(json.dumps(text).encode() + b"\n")  # type: ignore[union-attr]
            self.process.stdin.flush()  # type: ignore[union-attr]
        with np.errstate(over="ignore"):
            return [float(np.float32(self.read("read a text"))) for _ in texts]

    def perplexities_or_again(self, texts: Sequence[str]) -> list[float]:
        """Return the perplexities of at most AHEAD texts; a process that ends is started once more.

        The system may have killed it for lack of memory. Raises Fault if it ends again.
        """
        try:
            return self.perplexities(texts)
        except Fault:
            self.end()
            self.start()
            return self.perplexities(texts)

    def read(self, what: str) -> Any:
        if line := self.process.stdout.readline():  # type: ignore[union-attr]
            return json.loads(line)
        status = self.process.wait()
        by = Signals(-status).name if status < 0 else f"status {status}"
        memory, seconds = limits().kenlm_memory >> 20, limits().kenlm_seconds
        allowed = (
            f"{memory:,} MiB and {seconds} seconds are allowed, in addition to the allowance for its size"
        )
        raise Fault(f"KenLM ended by {by} while it {what} ({allowed}); {AGAIN}")

    def answers(self, texts: pa.ChunkedArray) -> list[pa.Array]:
        try:
            with self.lock:
                if self.process.poll() is not None:  # a text, or the system, has ended it
                    self.start()
                try:
                    numbers = list[float]()
                    for start in range(0, len(texts), AHEAD):
                        numbers += self.perplexities_or_again(texts[start : start + AHEAD].to_pylist())
                except BaseException:  # an interrupted call would leave an answer for the next call
                    self.end()
                    raise
        except Fault as error:
            raise BadInput(f"model {self.path}: {error}") from error
        return [pa.array(numbers, pa.float32())]


def end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.communicate()


def reason_of(fault: str) -> str:
    """Return KenLM's reason in one line, without the file and function of its code, which precede it."""
    return one_line(fault.rpartition("Exception")[2].lstrip(". ") or fault)
