"""Measure the replacement of personal data on one core: speed beside `re` and datatrove, precision and recall.

Made personal data, in forms that people write (some of which no rule here knows), are planted among lines of real
text that have no @ and no four numbers with dots. As many look-alikes are planted, too. A match is right if it
has all planted characters and no others.
"""

import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

import pyarrow as pa

from benchmarks.corpora import load_texts, megabytes_of
from benchmarks.harness import (
    DEMO,
    OtherPython,
    Table,
    TextsFolder,
    benchmark,
    datatrove_speeds,
    shortest_time,
)
from zyda_flows.textkernels.buffers import roomy_buffers
from zyda_flows.textkernels.texts.ip_addresses import is_public
from zyda_flows.textkernels.texts.personal import (
    KINDS,
    PersonalDataKind,
    count_matches,
    find_matches,
    replace_matches,
)
from zyda_flows.textkernels.texts.personal_forms import COUNTRIES, is_card

PLANTED = 2000  # of each kind
SLOW_SECONDS = 20  # for `re` and for datatrove
DATATROVE_IMPORTS = "from datatrove.pipeline.formatters.pii import PIIFormatter"
Form = Callable[[random.Random], str]
CARDS = [
    ("4", 16),
    ("51", 16),
    ("2221", 16),
    ("37", 15),
    ("6011", 16),
    ("3528", 16),
    ("62", 16),
]  # beginning, digits


def digits(chance: random.Random, count: int) -> str:
    return "".join(chance.choices("0123456789", k=count))


def word(chance: random.Random) -> str:
    return "".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randrange(2, 9)))


def address(chance: random.Random, *, public: bool) -> str:
    while True:
        numbers = ".".join(str(chance.randrange(256)) for _ in range(4))
        if is_public(numbers) == public:
            return numbers


def card(chance: random.Random, separator: str = "") -> str:
    beginning, size = chance.choice(CARDS)
    while True:
        number = beginning + digits(chance, size - len(beginning))
        if is_card(number):
            groups = (4, 10, 15) if size == 15 else (4, 8, 12, 16)
            return separator.join(number[a:b] for a, b in zip((0, *groups), groups, strict=False))


def iban(chance: random.Random, separator: str = "") -> str:
    size = chance.choice(list(COUNTRIES))
    country = chance.choice(COUNTRIES[size].split())
    account = "".join(chance.choices("ABCDEFGH", k=4)) * (country in {"GB", "NL", "IE"})
    account += digits(chance, size - 4 - len(account))
    check = 98 - int("".join(str(int(letter, 36)) for letter in f"{account}{country}00")) % 97
    number = f"{country}{check:02}{account}"
    return separator.join(number[i : i + 4] for i in range(0, size, 4))


def american(form: str, chance: random.Random) -> str:
    area, exchange = (f"{chance.randrange(200, 1000)}" for _ in range(2))
    return form.format(area, exchange, digits(chance, 4))


AMERICAN = (
    "({}) {}-{}",
    "{}-{}-{}",
    "1-{}-{}-{}",
    "+1 {} {} {}",
    "+1{}{}{}",
    "{}.{}.{}",
    "{} {} {}",
    "{}{}{}",
)
FORMS: dict[str, list[Form]] = {
    "mail": [
        lambda c: f"{word(c)}@{word(c)}.com",
        lambda c: f"{word(c)}.{word(c)}@{word(c)}.co.uk",
        lambda c: f"{word(c)}+{word(c)}@mail.{word(c)}.org",
        lambda c: f"{word(c).upper()}_{digits(c, 2)}@{word(c)}-{word(c)}.de",
        lambda c: f"{word(c)}@{word(c)}ü.de",
    ],
    "ip": [partial(address, public=True)],
    "phone": [
        *(partial(american, form) for form in AMERICAN),
        lambda c: f"+49 {c.randrange(30, 1000)} {digits(c, 7)}",
        lambda c: f"+44 (0)20 {digits(c, 4)} {digits(c, 4)}",
        lambda c: "+33 6 " + " ".join(digits(c, 2) for _ in range(4)),
        lambda c: f"(020) {digits(c, 4)} {digits(c, 4)}",
        lambda c: f"030 {digits(c, 7)}",
    ],
    "card": [card, partial(card, separator=" "), partial(card, separator="-")],
    "iban": [iban, partial(iban, separator=" "), lambda c: iban(c).lower()],
}
LOOK_ALIKES: list[Form] = [
    lambda c: f"version {c.randrange(4)}.{c.randrange(9)}.{c.randrange(9)}.{c.randrange(9)}",
    lambda c: f"ISBN 978-{c.randrange(10)}-{digits(c, 3)}-{digits(c, 5)}-{c.randrange(10)}",
    lambda c: f"ISBN 978{digits(c, 10)}",
    lambda c: f"order {digits(c, c.randrange(8, 20))}",
    lambda c: f"order {c.randrange(100, 999)}-{digits(c, 7)}-{digits(c, 7)}",
    lambda c: (
        f"2024-0{c.randrange(1, 9)}-1{c.randrange(9)} 1{c.randrange(9)}:00:00+0100 at 17{digits(c, 11)}"
    ),
    lambda c: f"{c.getrandbits(256):064x}",
    lambda c: f"{c.getrandbits(128):032X}",
    partial(address, public=False),
    lambda c: f"192.168.{c.randrange(256)}.{c.randrange(256)}",
    lambda c: f"4{digits(c, 3)} {digits(c, 4)} {digits(c, 4)} {digits(c, 4)}",
    lambda c: f"{c.choice(['DE', 'FR', 'GB'])}{digits(c, 20)}",
    lambda c: f"@{word(c)}.{word(c)}({word(c)})",
    lambda c: f"git@{word(c)}.com:{word(c)}/{word(c)}",
    lambda c: f"{digits(c, 3)} {digits(c, 3)} {digits(c, 4)}",
    lambda c: f"{digits(c, 3)}-{digits(c, 2)}-{digits(c, 4)}",
    lambda c: f"x +{digits(c, c.randrange(6, 13))} -{digits(c, 3)}.{digits(c, 9)}",
    lambda c: f"10.1{digits(c, 3)}/{word(c)}.{digits(c, 4)}.{digits(c, 6)}",
]


def plant(texts: pa.LargeStringArray) -> tuple[pa.LargeStringArray, dict[str, set[bytes]]]:
    """Return documents with a planted text each, and the right matches of each kind, as `key`."""
    chance = random.Random(0)
    lines = [line for line in "\n".join(texts[:2000].to_pylist()).split("\n") if is_plain(line)]
    documents, truth = list[str](), {name: set[bytes]() for name in FORMS}
    planted = [(name, forms[i % len(forms)](chance)) for name, forms in FORMS.items() for i in range(PLANTED)]
    others = [("", LOOK_ALIKES[i % len(LOOK_ALIKES)](chance)) for i in range(len(planted))]
    for number, (name, text) in enumerate(chain(planted, others)):
        before, after = chance.choices(lines, k=2)
        start, end = chance.choice(["", "Contact: ", "see (", "is "]), chance.choice(" ,.;)")
        documents.append(f"{before}\n{start}{text}{end}\n{after}")
        if name:
            truth[name].add(key(number, text.encode()))
    return pa.array(documents, pa.large_string()), truth


def key(document: int, text: bytes) -> bytes:
    return b"%d:%s" % (document, text)


def is_plain(line: str) -> bool:
    return 20 < len(line) < 300 and "@" not in line and not KINDS["ip"].expression.search(line)


def matches(texts: pa.LargeStringArray, kind: PersonalDataKind) -> set[bytes]:
    data, ends = roomy_buffers(texts)
    return {
        key(document, data[begin:end].tobytes()) for document, begin, end in find_matches(data, ends, kind)
    }


def speed_of_re(texts: list[str], kinds: list[PersonalDataKind]) -> float:
    """Return the MB/s of `re` and the checks alone, for the texts of about SLOW_SECONDS."""
    size, spent = 0, 0.0
    for text in texts:
        substitute = lambda text=text: [kind.expression.sub(replacement(kind), text) for kind in kinds]  # noqa: E731
        spent += shortest_time(substitute, 1)
        size += len(text.encode())
        if spent > SLOW_SECONDS:
            break
    return size / 1e6 / spent


def replacement(kind: PersonalDataKind) -> Callable[..., str]:
    return lambda match: kind.replacements[0] if kind.is_valid(match[0]) else match[0]


def replace_as_fineweb(texts: pa.LargeStringArray) -> None:
    for name in ("mail", "ip"):
        texts, _ = replace_matches(texts, KINDS[name])


@benchmark("personal")
def measure(folder: TextsFolder = DEMO, python: OtherPython = "") -> Iterator[Table]:
    texts = load_texts(folder, 40)
    size, as_strings = megabytes_of(texts), texts.to_pylist()
    mixed, truth = plant(texts)
    theirs = ""
    if python:
        speeds = datatrove_speeds(
            python, DATATROVE_IMPORTS, '{"pii": PIIFormatter().format}', SLOW_SECONDS, texts
        )
        theirs = f"{speeds['pii']:.2g}"
    calls = {name: (partial(replace_matches, texts, kind), [name], "") for name, kind in KINDS.items()}
    calls["mail and ip, as FineWeb"] = (partial(replace_as_fineweb, texts), ["mail", "ip"], theirs)
    calls["all five"] = (partial(count_matches, texts), list(KINDS), "")
    rows = []
    for name, (call, kinds, datatrove) in calls.items():
        precision = recall = ""
        if name in KINDS:
            matched = matches(mixed, KINDS[name])
            right = len(matched & truth[name])
            precision, recall = f"{right / max(1, len(matched)):.3f}", f"{right / len(truth[name]):.3f}"
        rows.append({
            "kind": name, "MB/s": size / shortest_time(call),
            "re, MB/s": speed_of_re(as_strings, [KINDS[kind] for kind in kinds]), "datatrove, MB/s": datatrove,
            "precision": precision, "recall": recall,
        })  # fmt: skip
    yield Table(f"Personal data, {len(texts):,} documents, {size:.1f} MB, one core", rows)


if __name__ == "__main__":
    measure.main()
