"""Print the plan of a mixture as a table with notes, or as JSON."""

import json
from typing import TYPE_CHECKING

from zyda_flows.flows.command.terminal import as_size, console, say, table_of
from zyda_flows.tasks.words import counted

if TYPE_CHECKING:
    from zyda_flows.tasks.mixing.amounts import Amount
    from zyda_flows.tasks.mixing.mixing import Mixing
    from zyda_flows.tasks.mixing.tallies import PartTally

LARGE_DEVIATION = 0.02  # share of a target; larger deviations are reported
BAR = 24  # characters of the longest bar


def print_plan(mixing: "Mixing") -> None:
    """Print a table of the parts, and notes."""
    plan, _ = mixing.plan, mixing.file_counts
    total = max(1, sum(amount.tokens for amount in plan.amounts))
    table = table_of(
        "part", "documents", "unique tokens", "copied in an epoch", "epochs", "target", "tokens", "share", "",
        "unused",
        words=["part", ""],
    )  # fmt: skip
    for tally, amount in zip(plan.tallies, plan.amounts, strict=True):
        share = amount.tokens / total
        table.add_row(
            tally.name, f"{tally.documents:,}", f"{tally.unique:,}", f"{tally.repeated:,}",
            f"{amount.epochs:.4g}", f"{amount.target:,}", f"{amount.tokens:,}", f"{share:.2%}",
            "█" * round(BAR * share), f"{unused_tokens(tally, amount):,}",
        )  # fmt: skip
    console().print(table)
    for line in plan_lines(mixing):
        say(line)


def unused_tokens(tally: "PartTally", amount: "Amount") -> int:
    """Return the tokens of a part that are in no file, because the part needs less than an epoch."""
    return tally.tokens - amount.tokens if amount.epochs < 1 else 0


def plan_as_json(mixing: "Mixing") -> str:
    """Return the plan of each part, the number of files, and the notes, as JSON.

    Fields of a part that mixture.json also has are the same there.
    """
    from zyda_flows.tasks.mixing.disk_need import disk_need  # late

    plan, (train, held_out) = mixing.plan, mixing.file_counts
    parts = [
        {
            **tally.model_dump(exclude={"unused"}),
            "tokens": tally.unique,
            "epochs": amount.epochs,
            "planned": amount.target,
            "written": amount.tokens,
            "unused": unused_tokens(tally, amount),
            "without_copies": tally.unused,
        }
        for tally, amount in zip(plan.tallies, plan.amounts, strict=True)
    ]
    files = {"train": train, "validation": held_out}
    whole = {
        "version": mixing.place,
        "storage": disk_need(mixing).model_dump(),
        "width": mixing.encoding.width,
        "files": files,
        "left_out": plan.left_out,
    }
    return json.dumps({**whole, "parts": parts, "notes": plan_lines(mixing)}, indent=1)


def plan_lines(mixing: "Mixing") -> list[str]:
    """Return notes: totals, held-out documents, special tokens, and parts that deviate from their target."""
    plan = mixing.plan
    total = sum(amount.tokens for amount in plan.amounts)
    held_out = sum(tally.held_out for tally in plan.tallies)
    size = total * mixing.encoding.width
    lines = [f"{total:,} tokens to train on, {as_size(size)} in {mixing.encoding.width} bytes each"]
    if held_out:
        tokens = sum(tally.held_out_tokens for tally in plan.tallies)
        lines.append(f"held out: {counted(held_out, 'document')}, {counted(tokens, 'token')}")
        lines += recall_lines(mixing)
    lines.append(disk_line(mixing))
    lines += mixing.nothing_held_out
    lines += special_lines(mixing)
    if plan.left_out:
        lines.append(f"in no part: {counted(plan.left_out, 'document')}")
    lines += [
        f"part {amount.part} deviates from its target by {abs(amount.tokens - amount.target) / amount.target:.0%}: "
        "its documents are too long to come closer"
        for amount in plan.amounts
        if abs(amount.tokens - amount.target) > LARGE_DEVIATION * amount.target
    ]
    return lines


def disk_line(mixing: "Mixing") -> str:
    """Return the estimated storage of the files and of the work folder."""
    from zyda_flows.tasks.mixing.disk_need import disk_need  # late

    need = disk_need(mixing)
    return (
        f"storage: about {as_size(need.files)} for the files; work folder: about {as_size(need.work)} at the end "
        f"of the shuffle, {as_size(need.work_kept)} afterwards"
    )


def recall_lines(mixing: "Mixing") -> list[str]:
    """Return the share of near-duplicates of held-out documents that are found, in their corpus and in others."""
    from zyda_flows.tasks.mixing.mixing import SIMILARITY  # late
    from zyda_flows.tasks.mixing.neighbours import incomparable, recall_at, recall_within  # late

    lines = [
        f"{a} and {b} are not compared, because their band keys differ: held-out documents of one may have "
        "near-duplicates in the other"
        for a, b in incomparable(mixing.inputs)
    ]
    for label, recall in recall_within(mixing.inputs, SIMILARITY).items():
        share = "an unknown share" if recall is None else f"{recall:.1%}"
        lines.append(f"of near-duplicates within {label}, {share} are found at a similarity of {SIMILARITY}")
    if (recall := recall_at(mixing.inputs, SIMILARITY)) is not None:
        lines.append(
            f"of near-duplicates in another corpus, {recall:.1%} are found at a similarity of {SIMILARITY}"
        )
    return lines


def unfinished_lines(mixing: "Mixing", mixture: str) -> list[str]:
    """Return a line for each folder of an interrupted mix."""
    from zyda_flows.tasks.mixing.leftovers import leftovers  # late

    return [
        f"{mixing.folder.url}/{item.path}: {counted(item.files, 'file')}, {as_size(item.size)}, of an interrupted "
        f"mix; remove it with zyda clean {mixture}"
        for item in leftovers(mixing.folder, ours=mixing.place)
    ]


def special_lines(mixing: "Mixing") -> list[str]:
    """Return the number of special tokens in texts, and the corpora that count them differently."""
    documents, times = (
        sum(getattr(tally, name) for tally in mixing.plan.tallies)
        for name in ("special_documents", "special_tokens")
    )
    became = {"text": "text", "control": "control tokens"}[mixing.encoding.special_tokens]
    lines = [
        f"special tokens occur in {counted(documents, 'document')}, {counted(times, 'time')}; "
        f"they become {became}"
    ] * (documents > 0)
    return lines + [
        f"corpus {corpus.label} was counted with another `special_tokens` than this mixture has: its n_tokens "
        "differ for documents with special tokens"
        for number, corpus in enumerate(mixing.inputs.corpora)
        if mixing.inputs.is_counted_otherwise(number)
    ]
