"""Facts: the numbers, negations, identifiers and names of a text, which similar texts can differ in.

Two texts about different facts can be very similar: MiniLM's cosine of a text and the same text with another number
is 0.99. A document is a safe duplicate only if the kept document has its facts, and if it is no edited version with
other words (`tasks.semantic.compared_texts`). The facts of 1 MiB of English take 0.5 s and 1 to 14 MiB of memory
(one core).

The facts are found by their form, after Unicode's NFKC:

- **number**: digits with their separators, sign, currency and unit (`5 km`, `$1000`, `3.11`), number words, units
  in other places, weekdays, months, and dates: `January 2, 2020` is `2020-01-02`. Commas between groups of three
  digits are left out, in German, French and Spanish the points. `7,8` is a single number.
- **negation**: words such as `not`, `only`, `before` and `or`; opposites, such as `accept` and `reject`, if each
  text has another; and words that only one text has with a prefix, such as `invalid`.
- **identifier**: words with an underscore, a digit, a capital inside, or with `.`, `/`, `:` or `-` between parts of
  which one has a capital; addresses, paths, options such as `--force`, comparisons such as `!=`, and emoji.
- **name**: capitalised words, words of capitals, and titles in 《》. A capitalised word that begins a sentence may
  be any word: it is only compared with the words of the other text, and not if it is `common`. German nouns may
  have another ending, and are left out if they have an ending such as `-ung`.
- **code**: the lines of code (`tasks.dedup.code_lines`). The kept text has them in the same order.
- **order**: the kept text has the same words as often and hardly any more, but in another order: "A beats B".
- **size**: a text of more than MOST_DISTINCT words is never covered by another.

The words are in facts.toml. Facts of a kind are compared as multisets: a fact that a text has twice must be there
twice. These differences are not seen: changed roles in other words ("B is beaten by A"), changed places of facts
("5 dogs and 7 cats" for "7 dogs and 5 cats" in other words), plain words ("brake" for "clutch"), indentation.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice
from typing import NamedTuple
from unicodedata import is_normalized, normalize

import numpy as np
from numpy.typing import NDArray

from zyda_flows.tasks.dedup import fact_forms
from zyda_flows.tasks.dedup.code_lines import code_lines
from zyda_flows.tasks.dedup.copies import is_within
from zyda_flows.tasks.dedup.fact_words import (
    COVERED_WORDS,
    KINDS,
    OPPOSITES,
    PAIRS_OF_OPPOSITES,
    WORDS,
    is_german_noun,
    kind_of,
)
from zyda_flows.tasks.dedup.novelty import words_in_order
from zyda_flows.tasks.dedup.pieces import pieces_of

MOST_DISTINCT = 1 << 20  # distinct words, numbers and lines of code; an English text of 64 MiB has fewer
SAME_SIZE = 1.01
MOST_SHOWN = 1000  # facts of a kind


class TextFacts(NamedTuple):
    """The facts of a text.

    counts: by kind, the number of occurrences of each fact. openings: the capitalised words that begin sentences.
    words: all words in lower case. forms: the words of a fact, if they are not its compared form.
    code: the lines of code. hashes: (w,), of the words in their order. language: of most function words.
    is_complete: whether the text has at most MOST_DISTINCT words; otherwise the rest is missing.
    """

    counts: dict[str, Counter[str]]
    openings: Counter[str]
    words: Counter[str]
    forms: dict[str, list[str]]
    code: list[str]
    hashes: NDArray[np.uint64]
    language: str
    is_complete: bool


def facts_of(text: str) -> TextFacts:
    """Return the facts of a text by KINDS."""
    found = fact_forms.Found()
    code, lines = list[str](), dict[str, str]()
    for piece in pieces_of(text):
        piece = fact_forms.RAISED.sub(" ", piece)  # otherwise, 10⁵ would become 105
        found.add(piece if piece.isascii() or is_normalized("NFKC", piece) else normalize("NFKC", piece))
        if found.size + len(lines) > MOST_DISTINCT:
            break
    else:
        for line in code_lines(text):
            code.append(lines.setdefault(line, line))
    is_complete = found.size + len(lines) <= MOST_DISTINCT
    words = Counter[str]()
    for word, count in found.words.items():
        words[word.lower()] += count
    language = language_of(words)
    facts = TextFacts(
        {kind: Counter() for kind in KINDS},
        found.whole_openings(),
        words,
        {},
        code,
        words_in_order(text) if is_complete else np.empty(0, np.uint64),
        language,
        is_complete,
    )
    for kind, fact, shown, count in found_facts(found, language):
        facts.counts[kind][fact] += count
        if kind == "negation":
            facts.forms.setdefault(fact, []).append(shown)
    return facts


def lacking(text: str, kept: str) -> dict[str, tuple[str, ...]]:
    """Return the facts of a text that a kept text lacks; see `lacking_facts`."""
    return lacking_facts(facts_of(text), facts_of(kept))


def lacking_facts(own: TextFacts, other: TextFacts) -> dict[str, tuple[str, ...]]:
    """Return the facts of a text that a kept text lacks, by their kind.

    Negations that only the kept text has are among them, with a `+` before each: they change what it states. Each
    kind has the first MOST_SHOWN facts. An empty result means that no difference was found.
    """
    if not own.is_complete or not other.is_complete:
        return {"size": (f"more than {MOST_DISTINCT:,} distinct words",)}
    others = other.counts | {"name": other.counts["name"] + other.openings}
    lacks = {kind: [*first(own.counts[kind] - others[kind])] for kind in KINDS}
    lacks["negation"] = lacking_negations(own, other)
    lacks["negation"] += [f"+{word}" for word in lacking_negations(other, own)]
    lacks["negation"] += swapped_words(own.words, other.words, {*lacks["negation"]})
    known = other.words.keys() | WORDS["common"]
    lacks["name"] += [word for word in own.openings if word.lower() not in known]
    if own.language == "de":
        lacks["name"] = lacking_nouns(lacks["name"], other.words)
    lines = iter(other.code)
    lacks["code"] = [line for line in own.code if line not in lines][:1]
    lacks["order"] = ["the same words in another order"] if is_reordered(own.hashes, other.hashes) else []
    return {kind: tuple(facts[:MOST_SHOWN]) for kind, facts in lacks.items() if facts}


def lacking_negations(own: TextFacts, other: TextFacts) -> list[str]:
    """Return the negations that another text lacks, as the text has them, first its words that the other lacks."""
    found = list[str]()
    for fact, count in (own.counts["negation"] - other.counts["negation"]).items():
        words = Counter({word: own.words[word] for word in own.forms[fact]})
        lost = words - other.words
        found += islice(chain(lost.elements(), (words - lost).elements()), min(count, MOST_SHOWN))
    return found[:MOST_SHOWN]


def first(facts: Counter[str]) -> Iterator[str]:
    return islice(facts.elements(), MOST_SHOWN)


def found_facts(found: fact_forms.Found, language: str) -> Iterator[tuple[str, str, str, int]]:
    """Yield the kind, the compared form, the form in the text and the count of each fact."""
    openings = found.whole_openings()
    for number, count in found.numbers.items():
        form = fact_forms.number_in_one_form(number, language)
        yield "number", form, form, count
    for word, count in found.words.items():
        if count > 0 and (fact := kind_of(word)):
            kind, form = fact
            if kind == "name":
                count -= openings[word]
            if count > 0:
                yield kind, form, word.lower() if kind == "negation" else form, count
    for kind, counts in (("name", found.titles), ("identifier", found.operators)):
        for form, count in counts.items():
            yield kind, form, form, count


def language_of(words: Counter[str]) -> str:
    """Return the covered language with most function words, `en` if there are none."""
    sums = {name: sum(words[word] for word in listed) for name, listed in COVERED_WORDS.items()}
    return max(sums, key=lambda name: sums[name])


def swapped_words(own: Counter[str], other: Counter[str], reported: set[str]) -> Iterator[str]:
    """Yield words of which the other text has the opposite, and with a `+` the opposites.

    reported: the negations that differ, whose pairs are left out.
    """
    lost, gained = own - other, other - own
    for number in sorted({number for word in lost for number in PAIRS_OF_OPPOSITES.get(word, ())}):
        pair = OPPOSITES[number]
        for side, opposite in (pair, pair[::-1]):
            losses, gains = lost_words(lost, gained, side), lost_words(gained, lost, opposite)
            gains = [f"+{word}" for word in gains]
            if losses and gains and not reported.intersection(losses + gains):
                yield from (*losses, *gains)
    for prefix in sorted(WORDS["prefixes"]):
        for shorter, longer, signs in ((lost, gained, ("", "+")), (gained, lost, ("+", ""))):
            for word in shorter if len(longer) else ():
                if len(word) > 2 and prefix + word in longer:
                    yield from sorted(
                        (signs[0] + word, signs[1] + prefix + word), key=lambda fact: fact[0] == "+"
                    )


def lost_words(lost: Counter[str], gained: Counter[str], words: tuple[str, ...]) -> list[str]:
    """Return the lost words of a list, if more of the list are lost than gained."""
    found = [word for word in words if word in lost]
    return found if sum(lost[word] for word in found) > sum(gained[word] for word in words) else []


def lacking_nouns(names: list[str], words: Counter[str]) -> list[str]:
    """Leave out German nouns, and nouns that another text has with another ending."""
    endings = WORDS["german_endings"]

    def is_there(name: str) -> bool:
        lower = name.lower()
        stems = [lower[: -len(ending)] for ending in endings if lower.endswith(ending)]
        return any(lower + ending in words for ending in endings) or any(
            len(stem) > 3 and (stem in words or any(stem + ending in words for ending in endings))
            for stem in stems
        )

    return [name for name in names if not is_german_noun(name) and not is_there(name)]


def is_reordered(own: NDArray[np.uint64], other: NDArray[np.uint64]) -> bool:
    """Return whether another text has all words of a text and hardly any more, in another order."""
    if not len(own) <= len(other) <= SAME_SIZE * len(own):
        return False
    words, counts = np.unique(own, return_counts=True)
    others, their_counts = np.unique(other, return_counts=True)
    places = np.minimum(np.searchsorted(others, words), max(0, len(others) - 1))
    has_all = bool(len(others)) and bool(((others[places] == words) & (their_counts[places] >= counts)).all())
    return has_all and not is_within(own, other)
