"""Personal data on one core: how fast it is replaced, beside `re` and datatrove, and how much is found rightly.

python -m benchmarks.personal [FOLDER] [PYTHON_WITH_DATATROVE]

What is planted is made up, in forms that people write, some of which no rule here knows. It stands among lines of
the real text that have no @ and no four numbers with dots, and among look-alikes, as many of them. A find counts
that has the planted characters, all of them and no others.
"""

import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measure import DEMO, as_workers_are, load_texts, megabytes_of, seconds, show
from zyda_flows.textkernels.buffers import roomy_buffers
from zyda_flows.textkernels.texts.ip_addresses import is_public
from zyda_flows.textkernels.texts.personal import (
    COUNTRIES,
    KINDS,
    Kind,
    count_matches,
    find_matches,
    is_card,
    replace_matches,
)

PLANTED = 2000  # of each kind
PLAIN_SECONDS = 20  # that `re` and datatrove may take
DATATROVE = """
import sys, time
import pyarrow.parquet as pq
from datatrove.pipeline.formatters.pii import PIIFormatter
texts, formatter, spent, size = pq.read_table(sys.argv[1]).column("text").to_pylist(), PIIFormatter(), 0.0, 0
for text in texts:
    start = time.perf_counter()
    formatter.format(text)
    spent += time.perf_counter() - start
    size += len(text.encode())
    if spent > 20:
        break
print(size / 1e6 / spent)
"""
Forms = list[Callable[[random.Random], str]]


def digits(chance: random.Random, count: int) -> str:
    return "".join(chance.choices("0123456789", k=count))


def word(chance: random.Random) -> str:
    return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randrange(2, 9)))


def address(chance: random.Random, *, public: bool) -> str:
    while True:
        one = ".".join(str(chance.randrange(256)) for _ in range(4))
        if is_public(one) == public:
            return one


def card(chance: random.Random, separator: str = "") -> str:
    beginning, size = chance.choice(
        [("4", 16), ("51", 16), ("2221", 16), ("37", 15), ("6011", 16), ("3528", 16), ("62", 16)]
    )
    while True:
        one = beginning + digits(chance, size - len(beginning))
        if is_card(one):
            groups = (4, 10, 15) if size == 15 else (4, 8, 12, 16)
            return separator.join(one[a:b] for a, b in zip((0, *groups), groups, strict=False))


def iban(chance: random.Random, separator: str = "") -> str:
    size = chance.choice(list(COUNTRIES))
    country = chance.choice(COUNTRIES[size].split())
    account = "".join(chance.choices("ABCDEFGH", k=4)) * (country in {"GB", "NL", "IE"})
    account += digits(chance, size - 4 - len(account))
    check = 98 - int("".join(str(int(one, 36)) for one in f"{account}{country}00")) % 97
    one = f"{country}{check:02}{account}"
    return separator.join(one[i : i + 4] for i in range(0, size, 4))


def american(chance: random.Random, form: str) -> str:
    area, exchange = (f"{chance.randrange(200, 1000)}" for _ in range(2))
    return form.format(area, exchange, digits(chance, 4))


FORMS: dict[str, Forms] = {
    "mail": [
        lambda c: f"{word(c)}@{word(c)}.com",
        lambda c: f"{word(c)}.{word(c)}@{word(c)}.co.uk",
        lambda c: f"{word(c)}+{word(c)}@mail.{word(c)}.org",
        lambda c: f"{word(c).upper()}_{digits(c, 2)}@{word(c)}-{word(c)}.de",
        lambda c: f"{word(c)}@{word(c)}ü.de",
    ],
    "ip": [lambda c: address(c, public=True)],
    "phone": [
        lambda c: american(c, "({}) {}-{}"),
        lambda c: american(c, "{}-{}-{}"),
        lambda c: american(c, "1-{}-{}-{}"),
        lambda c: american(c, "+1 {} {} {}"),
        lambda c: american(c, "+1{}{}{}"),
        lambda c: american(c, "{}.{}.{}"),
        lambda c: american(c, "{} {} {}"),
        lambda c: american(c, "{}{}{}"),
        lambda c: f"+49 {c.randrange(30, 1000)} {digits(c, 7)}",
        lambda c: f"+44 (0)20 {digits(c, 4)} {digits(c, 4)}",
        lambda c: "+33 6 " + " ".join(digits(c, 2) for _ in range(4)),
        lambda c: f"(020) {digits(c, 4)} {digits(c, 4)}",
        lambda c: f"030 {digits(c, 7)}",
    ],
    "card": [lambda c: card(c), lambda c: card(c, " "), lambda c: card(c, "-")],
    "iban": [lambda c: iban(c), lambda c: iban(c, " "), lambda c: iban(c).lower()],
}
LOOK_ALIKES: Forms = [
    lambda c: f"version {c.randrange(4)}.{c.randrange(9)}.{c.randrange(9)}.{c.randrange(9)}",
    lambda c: f"ISBN 978-{c.randrange(10)}-{digits(c, 3)}-{digits(c, 5)}-{c.randrange(10)}",
    lambda c: f"ISBN 978{digits(c, 10)}",
    lambda c: f"order {digits(c, c.randrange(8, 20))}",
    lambda c: f"order {c.randrange(100, 999)}-{digits(c, 7)}-{digits(c, 7)}",
    lambda c: f"2024-0{c.randrange(1, 9)}-1{c.randrange(9)} 1{c.randrange(9)}:00:00+0100 at 17{digits(c, 11)}",
    lambda c: f"{c.getrandbits(256):064x}",
    lambda c: f"{c.getrandbits(128):032X}",
    lambda c: address(c, public=False),
    lambda c: f"192.168.{c.randrange(256)}.{c.randrange(256)}",
    lambda c: f"4{digits(c, 3)} {digits(c, 4)} {digits(c, 4)} {digits(c, 4)}",
    lambda c: f"{c.choice(['DE', 'FR', 'GB'])}{digits(c, 20)}",
    lambda c: f"@{word(c)}.{word(c)}({word(c)})",
    lambda c: f"git@{word(c)}.com:{word(c)}/{word(c)}",
    lambda c: f"{digits(c, 3)} {digits(c, 3)} {digits(c, 4)}",
    lambda c: f"{digits(c, 3)}-{digits(c, 2)}-{digits(c, 4)}",
    lambda c: f"x +{digits(c, c.randrange(6, 13))} -{digits(c, 3)}.{digits(c, 9)}",
    lambda c: f"10.1{digits(c, 3)}/{word(c)}.{digits(c, 4)}.{digits(c, 6)}",
]  # fmt: skip


def labelled(texts: pa.LargeStringArray) -> tuple[pa.LargeStringArray, dict[str, set[bytes]]]:
    """Return documents with something planted in each, and which: the number of the document, kind by kind."""
    chance = random.Random(0)
    lines = [line for line in "\n".join(texts[:2000].to_pylist()).split("\n") if is_plain(line)]
    documents, truth = list[str](), {name: set[bytes]() for name in FORMS}
    planted = [(name, forms[i % len(forms)](chance)) for name, forms in FORMS.items() for i in range(PLANTED)]
    others = [("", LOOK_ALIKES[i % len(LOOK_ALIKES)](chance)) for i in range(len(planted))]
    for name, one in chain(planted, others):
        before, after = chance.choices(lines, k=2)
        documents.append(
            f"{before}\n{chance.choice(['', 'Contact: ', 'see (', 'is '])}{one}{chance.choice(' ,.;)')}\n{after}"
        )
        if name:
            truth[name].add(b"%d:%s" % (len(documents) - 1, one.encode()))
    return pa.array(documents, pa.large_string()), truth


def is_plain(line: str) -> bool:
    return 20 < len(line) < 300 and "@" not in line and not KINDS["ip"].expression.search(line)


def found_of(texts: pa.LargeStringArray, kind: Kind) -> set[bytes]:
    data, ends = roomy_buffers(texts)
    return {
        b"%d:%s" % (document, data[begin:end].tobytes())
        for document, begin, end in find_matches(data, ends, kind)
    }


def plain_speed(texts: list[str], kinds: list[Kind]) -> float:
    """Return the MB/s of `re` and the checks alone, on as many of the texts as take PLAIN_SECONDS."""
    size, spent = 0, 0.0
    for text in texts:
        spent += seconds(lambda text=text: [one.expression.sub(put(one), text) for one in kinds], 1)  # type: ignore[misc]
        size += len(text.encode())
        if spent > PLAIN_SECONDS:
            break
    return size / 1e6 / spent


def put(kind: Kind) -> Callable[..., str]:
    return lambda match: kind.replacements[0] if kind.is_valid(match[0]) else match[0]


def datatrove_speed(python: str, texts: pa.LargeStringArray) -> float:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts.parquet"
        pq.write_table(pa.table({"text": texts}), path)
        command = [python, "-c", DATATROVE, str(path)]
        said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    return float(said.split()[-1])


def main(folder: Path = DEMO, python: str | None = None) -> None:
    texts = load_texts(folder, 40)
    size, in_python = megabytes_of(texts), texts.to_pylist()
    mixed, truth = labelled(texts)
    rows: list[dict[str, str | float]] = []

    def measure(
        what: str, call: Callable[[], object], names: list[str], theirs: str, right: str, all_: str
    ) -> None:
        plain = plain_speed(in_python, [KINDS[name] for name in names])
        rows.append({"what": what, "MB/s": size / seconds(call), "re, MB/s": plain, "datatrove, MB/s": theirs,
                     "precision": right, "recall": all_})  # fmt: skip

    for name, kind in KINDS.items():
        finds, planted = found_of(mixed, kind), truth[name]
        right = len(finds & planted)
        shares = (f"{right / max(1, len(finds)):.3f}", f"{right / len(planted):.3f}")
        measure(name, lambda kind=kind: replace_matches(texts, kind), [name], "", *shares)  # type: ignore[misc]
    theirs = f"{datatrove_speed(python, texts):.2g}" if python else ""

    def of_fineweb() -> None:
        left = texts
        for name in ("mail", "ip"):
            left, _ = replace_matches(left, KINDS[name])

    measure("mail and ip, as FineWeb", of_fineweb, ["mail", "ip"], theirs, "", "")
    measure("all five", lambda: count_matches(texts), list(KINDS), "", "", "")
    show(f"Personal data, {len(texts):,} documents, {size:.1f} MB, one core", rows)


if __name__ == "__main__":
    as_workers_are()
    main(*map(Path, sys.argv[1:2]), *sys.argv[2:3])
