"""Estimate the storage of a mixture from its amounts: its files, and the work folder while it is mixed."""

from zyda_flows.tasks.mixing.mixing import TEXT_BYTES, Mixing
from zyda_flows.tasks.mixing.mixture import TEXT
from zyda_flows.tasks.mixing.segment_groups import MOST_SEGMENTS
from zyda_flows.tasks.storage.records import Record

SEGMENT_ROW = 36  # bytes of a piece in a segment, without its content
ORIGIN_ROW = (
    14  # bytes of a piece in `origins`; compressed rows were measured on 2,035 documents, 7.7 million tokens
)
# Bytes of a sequence, and of a token as a multiple of the bytes of an id, in the files of a format.
FORMAT_BYTES: dict[str, tuple[int, float]] = {
    "megatron": (20, 1),
    "datatrove": (8, 1),
    "olmo": (10, 1),
    "torchtitan": (8, 0),  # its ids always have TORCHTITAN_ID bytes
    "parquet": (4, 0.76),
}
TORCHTITAN_ID = 4


class DiskNeed(Record):
    """Estimated bytes.

    Args:
        files: Of the files of the version.
        work: Largest size of the work folder, at the end of the shuffle.
        work_kept: Size of the work folder after the mix: token ids and choices of documents.
    """

    files: int
    work: int
    work_kept: int


def disk_need(mixing: Mixing) -> DiskNeed:
    """Return the storage that a planned mixture needs."""
    mixture, width = mixing.mixture, mixing.encoding.width
    tokens = sum(amount.tokens for amount in mixing.plan.amounts)
    tokens += sum(tally.held_out_tokens for tally in mixing.plan.tallies)
    copies = copies_in(mixing)
    packed = mixture.packed
    pieces = copies + (tokens // packed if packed else 0)
    sequences = tokens // packed if packed else copies
    text = text_bytes(mixing, tokens) if TEXT in mixture.formats else 0
    forms = [FORMAT_BYTES[form] for form in mixture.formats if form != TEXT]
    ids = sum(row * sequences + multiple * width * tokens for row, multiple in forms)
    ids += TORCHTITAN_ID * tokens * ("torchtitan" in mixture.formats)
    ids += (4 * pieces + 20 * sequences) * bool(packed)  # boundaries
    files = ids + text + (ORIGIN_ROW * pieces if forms else 0)
    segments = (width * tokens + SEGMENT_ROW * pieces if forms else 0) + (
        TEXT_BYTES * tokens + SEGMENT_ROW * copies if TEXT in mixture.formats else 0
    )
    passes = 2 if len(mixing.files) > MOST_SEGMENTS else 1  # gathered segments are written beside the others
    kept = sum(artifact.size for artifact in (*mixing.tokens, *mixing.chosen))
    return DiskNeed(files=round(files), work=round(kept + passes * segments), work_kept=kept)


def copies_in(mixing: Mixing) -> int:
    """Return the number of written copies, estimated by the tokens of each part."""
    rows = zip(mixing.plan.tallies, mixing.plan.amounts, strict=True)
    return sum(
        tally.held_out + amount.tokens * tally.documents // max(1, tally.unique) for tally, amount in rows
    )


def text_bytes(mixing: Mixing, tokens: int) -> float:
    """Return the compressed bytes of texts with a number of tokens, by the published files."""
    published = sum(file.artifact.size for _, file, _ in mixing.files)
    return published * tokens / max(1, sum(artifact.counts.tokens for artifact in mixing.tokens))
