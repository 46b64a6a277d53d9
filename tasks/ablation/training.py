"""Train a causal model on a stream of token ids: AdamW, a warm-up, and a rate that falls to zero.

On a CPU the same input gives the same bits, with or without an interruption. This module is imported late, because
the import of torch takes seconds.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal

import numpy as np
import orjson
import safetensors.torch
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import Tensor

from zyda_flows.tasks.errors import BadRequest
from zyda_flows.tasks.log import LOG
from zyda_flows.tasks.storage.folder import Folder
from zyda_flows.tasks.tokens.engine import TokenIds

DECAY, BETAS, CLIP = 0.1, (0.9, 0.95), 1.0
CHECKPOINT_SECONDS = 60.0
LOSSES, DIGEST = "losses", "sha256"
Progress = Callable[[int, float], None]  # receives the number of finished steps and the loss of the last


@dataclass(frozen=True)
class TrainingSettings:
    """The settings of a training.

    sequence: tokens of a sequence. batch: sequences of a step. tokens: of all steps. rate: the largest learning
    rate. warmup: the share of the steps in which the rate grows. schedule: how the rate falls to zero afterwards.
    """

    sequence: int
    batch: int
    tokens: int
    rate: float
    warmup: float = 0.05
    schedule: Literal["linear", "1-sqrt"] = "linear"

    @property
    def steps(self) -> int:
        return self.tokens // (self.sequence * self.batch)

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        rising = math.ceil(self.steps * self.warmup)
        if step < rising:
            return self.rate * (step + 1) / rising
        passed = (step - rising) / max(1, self.steps - rising)
        return self.rate * (1 - (math.sqrt(passed) if self.schedule == "1-sqrt" else passed))


@dataclass(frozen=True)
class TokenStream:
    """The tokens of documents in an order, one after another. order: (n,), places in `documents`; may repeat."""

    documents: TokenIds
    order: NDArray[np.int64]

    @cached_property
    def ends(self) -> NDArray[np.int64]:
        ends: NDArray[np.int64] = np.cumsum(np.diff(self.documents.ends)[self.order])
        return ends

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.order) else 0

    def read(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the tokens from `start` to `stop`. Raises IndexError beyond the end of the stream."""
        if stop > len(self):
            raise IndexError(f"the stream has {len(self):,} tokens, and {stop:,} are read")
        first, last = np.searchsorted(self.ends, [start, stop - 1], side="right")
        parts = [self.documents.of(document) for document in self.order[first : last + 1]]
        offset = start - (int(self.ends[first]) - len(parts[0]))
        return np.concatenate(parts)[offset : offset + stop - start].astype(np.int64)


@dataclass(frozen=True)
class Checkpoint:
    """The file in which an unfinished training is stored, and the least seconds between two writes."""

    folder: Folder
    path: str
    seconds: float

    def load(self) -> dict[str, Tensor]:
        """Return the stored tensors; none if there is no checkpoint, or it is damaged."""
        if not (content := self.folder.read_if_there(self.path)):
            return {}
        try:
            tensors = safetensors.torch.load(content)
            size = int.from_bytes(content[:8], "little")  # of the header, in JSON
            if orjson.loads(content[8 : 8 + size])["__metadata__"][DIGEST] == digest_of_tensors(tensors):
                return tensors
        except (SafetensorError, ValueError, KeyError, TypeError):
            pass
        LOG.warning("%s/%s is damaged: the training begins again", self.folder.url, self.path)
        return {}

    def save(self, tensors: dict[str, Tensor]) -> None:
        metadata = {DIGEST: digest_of_tensors(tensors)}
        self.folder.write(self.path, safetensors.torch.save(tensors, metadata))


def digest_of_tensors(tensors: dict[str, Tensor]) -> str:
    """Return the SHA-256 of the names and bytes of tensors."""
    digest = sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {[*tensor.shape]} ".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def device_of_machine() -> str:
    """Return the device of trainings and measures: cuda, or cpu."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def train(
    model: Any,
    stream: TokenStream,
    settings: TrainingSettings,
    checkpoint: Checkpoint | None = None,
    progress: Progress = lambda *_: None,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Train a model in place, and return the loss of each step in nats per token, (steps,).

    seed: of the order of the sequences, so that a step has sequences of many documents. A stored checkpoint is
    continued, and removed at the end. Raises BadRequest if a loss is not finite.
    """
    torch.set_num_threads(1)  # sums of floats depend on the number
    device = device_of_machine()
    model.to(device).train()
    optimizer = optimizer_of(model, settings.rate)
    losses = list[float]()
    if checkpoint is not None and (stored := checkpoint.load()):
        losses = restore(stored, model, optimizer)
    written = time.monotonic()
    order = np.random.default_rng(seed).permutation(settings.steps * settings.batch)
    for step in range(len(losses), settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate_at(step)
        losses.append(
            train_step(model, optimizer, batch_at(stream, settings, order, step).to(device), device)
        )
        if not math.isfinite(losses[-1]):
            raise BadRequest(f"training: the loss of step {step + 1:,} is not finite; lower `rate`")
        progress(step + 1, losses[-1])
        if checkpoint is not None and time.monotonic() - written >= checkpoint.seconds:
            checkpoint.save(
                dict(state_of(model, optimizer)) | {LOSSES: torch.tensor(losses, dtype=torch.float64)}
            )
            written = time.monotonic()
    if checkpoint is not None:
        checkpoint.folder.delete(checkpoint.path)
    return np.array(losses)


def optimizer_of(model: Any, rate: float) -> torch.optim.AdamW:
    """Return an optimizer whose weight decay applies to matrices only."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [
        {"params": [each for each in parameters if each.dim() >= 2], "weight_decay": DECAY},
        {"params": [each for each in parameters if each.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, rate, BETAS)


def batch_at(stream: TokenStream, settings: TrainingSettings, order: NDArray[np.int64], step: int) -> Tensor:
    """Return the sequences of a step: int64, (batch, sequence). order: the places of all sequences, by step."""
    starts = order[step * settings.batch : (step + 1) * settings.batch] * settings.sequence
    rows = [stream.read(start, start + settings.sequence) for start in starts.tolist()]
    return torch.from_numpy(np.stack(rows))


def train_step(model: Any, optimizer: torch.optim.AdamW, rows: Tensor, device: str) -> float:
    """Change the weights by the gradient of a batch; return its loss before the change."""
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        logits = model(input_ids=rows).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), rows[:, 1:].flatten())
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
    optimizer.step()
    return float(loss.detach())


def state_of(model: Any, optimizer: torch.optim.AdamW) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of a model and the moments of its optimizer, by name."""
    for name, parameter in model.named_parameters():
        yield f"weight {name}", parameter.detach()
        for moment, value in optimizer.state[parameter].items():
            yield f"{moment} {name}", value.detach()


def restore(stored: dict[str, Tensor], model: Any, optimizer: torch.optim.AdamW) -> list[float]:
    """Set the weights and moments of a checkpoint; return the losses up to it."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(stored[f"weight {name}"])
            moments = [key.partition(" ")[0] for key in stored if key.partition(" ")[2] == name]
            optimizer.state[parameter] = {
                moment: stored[f"{moment} {name}"].to("cpu" if moment == "step" else parameter.device)
                for moment in moments
                if moment != "weight"
            }
    return [float(loss) for loss in stored[LOSSES]]
