"""The rule sets that a recipe can name: the statistic of each rule, and the values for which a document is kept.

A rule has the name of its statistic (see `tasks.documents`). A document is removed if its statistic is less than
the rule's `low` or more than its `high`. The order is that of the published code; the first broken rule of a
document is its reason.

    zyda1               Zyphra's Zyda_processing, `filtering.py`
    gopher-quality      table A1 and section A.1 of arXiv:2112.11446, as datatrove has them
    gopher-repetition   the same
    c4                  section 2.2 of arXiv:1910.10683, as datatrove has it
    fineweb             arXiv:2406.17557, section 3.5
    fineweb-2           arXiv:2506.20920: rules of the three sets above, with limits for each language from files
    refinedweb-lines    arXiv:2306.01116, section G.2, as DCLM has it
    code                The Stack and StarCoder, arXiv:2305.06161, section 3
    pii                 the amount of personal data; no paper has limits for it, so the recipe sets them
"""

from typing import Any, NamedTuple


class StatisticRule(NamedTuple):
    """The accepted values of a statistic, and a sentence about a removed document. low, high: None for no limit."""

    low: float | None
    high: float | None
    sentence: str


class RuleSet(NamedTuple):
    """Rules by the names of their statistics. options: further settings of the set, with their defaults.

    lists: the name of the term list that a rule counts, by rule; the recipe gives the list. by_language: whether
    the recipe gives files with limits and stop words for each language.
    """

    rules: dict[str, StatisticRule]
    options: dict[str, Any] = {}
    lists: dict[str, str] = {}
    by_language: bool = False


def least(low: float, sentence: str) -> StatisticRule:
    return StatisticRule(low, None, sentence)


def most(high: float, sentence: str) -> StatisticRule:
    return StatisticRule(None, high, sentence)


ZYDA1 = RuleSet(
    {
        "length": least(100, "it has too few characters after cleaning"),
        "mean_word_length": StatisticRule(3, 12, "its words are too short or too long"),
        "symbols": most(0.3, "too many of its characters are neither word characters nor white space"),
        "digits": most(0.2, "too many of its characters are digits"),
        "runs": most(50, "it has too many runs of seven or more equal characters"),
        "xml": most(10, "it contains \"xml\" too often"),
        "xml_declarations": most(1, "it has several XML declarations"),
        "lorem_ipsum": most(2, "it contains \"lorem ipsum\" too often"),
        "https_share": most(0.002, "it has too many URLs for its length"),
        "less_than_share": most(0.03, "it has too many < for its length"),
        "json_keys_share": most(0.002, "it has too many JSON keys for its length"),
        "www_share": most(0.01, "it has too many www. for its length"),
        "zh_porn": most(1, "it has terms of the list zh_porn"),
        "sexual": most(10, "it has too many terms of the list sexual"),
        "sexual_share": most(0.001, "it has too many terms of the list sexual for its length"),
        "profanity_share": most(0.0025, "it has too many terms of the list profanity for its length"),
        "cursed_share": most(0.01, "it has too many terms of the list cursed for its length"),
    },
    lists={"zh_porn": "zh_porn", "sexual": "sexual", "sexual_share": "sexual",
           "profanity_share": "profanity", "cursed_share": "cursed"},
)  # fmt: skip
GOPHER_QUALITY = RuleSet(
    {
        "words": StatisticRule(50, 100_000, "it has too few or too many words"),
        "mean_word_length": StatisticRule(3, 10, "its words are too short or too long"),
        "hashes": most(0.1, "it has too many # for its words"),
        "ellipses": most(0.1, "it has too many ellipses for its words"),
        "bullet_lines": most(0.9, "too many of its lines begin with a bullet"),
        "ellipsis_lines": most(0.3, "too many of its lines end with an ellipsis"),
        "alphabetic_words": least(0.8, "too few of its words have a letter"),
        "stop_words": least(2, "it has too few of the most frequent English words"),
    }
)
REPEATED = "too large a share of it is repeated {}"
GOPHER_REPETITION = RuleSet(
    {
        "empty": most(0, "it is empty, or has no prose"),
        "duplicate_paragraphs": most(0.3, "too many of its paragraphs are repetitions"),
        "duplicate_paragraph_characters": most(0.2, REPEATED.format("paragraphs")),
        "duplicate_lines": most(0.3, "too many of its lines are repetitions"),
        "duplicate_line_characters": most(0.2, REPEATED.format("lines")),
        **{
            f"top_{n}_grams": most(share, f"too large a share of it is one sequence of {n} words")
            for n, share in ((2, 0.2), (3, 0.18), (4, 0.16))
        },
        **{
            f"duplicate_{n}_grams": most(share, REPEATED.format(f"sequences of {n} words"))
            for n, share in ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10))
        },
    }
)
C4 = RuleSet(
    {
        "lorem_ipsum": most(0, 'it contains "lorem ipsum"'),
        "curly_brackets": most(0, "it has a curly bracket"),
        "sentences": least(5, "it has too few sentences in the kept lines"),
    },
    options={"terminal_punctuation": True},
)
FINEWEB = RuleSet(
    {
        "line_punctuation": least(0.12, "too few of its lines end with punctuation"),
        "short_lines": most(0.67, "too many of its lines are short"),
        "duplicate_line_characters": most(0.01, REPEATED.format("lines")),
        "new_lines": most(0.3, "it has too many line ends for its words"),
    }
)
# The limits for a language whose file has no value for a rule.
FINEWEB_2 = RuleSet(
    {
        **{
            name: rule
            for name, rule in GOPHER_REPETITION.rules.items()
            if name in {"empty", "duplicate_lines"} or name.endswith("_grams")
        },
        "line_punctuation": FINEWEB.rules["line_punctuation"],
        "duplicate_line_characters": FINEWEB.rules["duplicate_line_characters"]._replace(high=0.1),
        "new_lines": FINEWEB.rules["new_lines"],
        **GOPHER_QUALITY.rules,
        "stop_words": least(2, "it has too few of the most frequent words of its language"),
    },
    by_language=True,
)
REFINEDWEB_LINES = RuleSet(
    {"removed_words": most(0.05, "too many of its words are in lines of menus, counters and the like")}
)
CODE = RuleSet(
    {
        "max_line_length": most(1000, "it has a very long line"),
        "mean_line_length": most(100, "its lines are long"),
        "alphanumeric": least(0.25, "too few of its characters are letters or digits"),
    }
)
PII = RuleSet(
    {
        kind: StatisticRule(None, None, f"it has too few or too many {named}")
        for kind, named in {
            "mail": "mail addresses",
            "ip": "public IP addresses",
            "phone": "phone numbers",
            "card": "numbers of payment cards",
            "iban": "bank account numbers",
        }.items()
    }
)
RULE_SETS = {
    "zyda1": ZYDA1,
    "gopher-quality": GOPHER_QUALITY,
    "gopher-repetition": GOPHER_REPETITION,
    "c4": C4,
    "fineweb": FINEWEB,
    "fineweb-2": FINEWEB_2,
    "refinedweb-lines": REFINEDWEB_LINES,
    "code": CODE,
    "pii": PII,
}
