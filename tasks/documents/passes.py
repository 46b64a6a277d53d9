"""The passes over texts that measure rule sets; a pass serves all steps that need its sets.

Each pass takes the remaining documents of a batch, and the measures with the numbers of their steps.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zyda_flows.tasks.documents.batch import Columns, Documents
from zyda_flows.tasks.documents.measures import PERSONAL, ZYDA1, Measure
from zyda_flows.textkernels.texts.zyda1 import character_statistics, pattern_statistics

if TYPE_CHECKING:
    from zyda_flows.textkernels.rules.quality import WordLists

CODE_SETS = {"code"}  # sets for texts that are not prose
NumberedMeasures = Sequence[tuple[int, Measure]]  # each with the number of its step


def measure_prose(documents: Documents, wanted: NumberedMeasures, *, is_markdown: bool) -> None:
    """Measure all sets of words and lines in one pass, for all steps."""
    from zyda_flows.textkernels.texts.markdown import prose
    from zyda_flows.textkernels.texts.prose import measure_texts

    measures = [measure for _, measure in wanted]
    options = sorted({measure.terminal for measure in measures if measure.rule_set == "c4"}) or [True]
    batch, sets = documents.remaining_documents(), {measure.rule_set for measure in measures}
    texts, listed = prose(batch.text) if is_markdown else batch.text, stop_words_for(batch, measures)
    tables = {options[0]: measure_texts(texts, sets - CODE_SETS, options[0], *listed)}
    tables[options[0]] |= measure_texts(batch.text, sets & CODE_SETS)
    for option in options[1:]:
        tables[option] = tables[options[0]] | measure_texts(texts, {"c4"}, c4_terminal=option)
    for number, measure in wanted:
        table = tables.get(measure.terminal, tables[options[0]])[measure.rule_set]
        statistics = {name: table.column(name).to_numpy() for name in table.column_names}
        documents.set_columns(numbered(number, measure.rule_set, statistics))


def measure_personal(documents: Documents, wanted: NumberedMeasures) -> None:
    """Count the personal data in texts once for all steps."""
    from zyda_flows.textkernels.texts.personal import count_matches

    counts = count_matches(documents.remaining_documents().text)
    for number, _ in wanted:
        documents.set_columns(numbered(number, PERSONAL, counts))


def measure_characters(documents: Documents, number: int) -> None:
    """Measure Zyda-1's statistics of characters."""
    batch = documents.remaining_documents()
    counts = character_statistics(batch.original, batch.text, batch.is_changed)
    documents.set_columns(numbered(number, ZYDA1, counts))


def measure_patterns(documents: Documents, number: int, measure: Measure) -> None:
    """Measure Zyda-1's statistics of patterns and terms; `measure_characters` must run before."""
    batch = documents.remaining_documents()
    lengths = batch.columns[f"{number}.{ZYDA1}.length"].to_numpy()
    documents.set_columns(numbered(number, ZYDA1, pattern_statistics(batch.original, lengths, measure.terms)))


def numbered(number: int, rule_set: str, statistics: Mapping[str, NDArray[np.generic]]) -> Columns:
    """Return statistics as columns with the number of their step."""
    return {
        f"{number}.{rule_set}.{name}": pa.array(values.astype(np.float64))
        for name, values in statistics.items()
    }


def stop_words_for(
    batch: Documents, measures: Sequence[Measure]
) -> "tuple[WordLists, NDArray[np.int64]] | tuple[()]":
    """Return the lists of stop words, and the list for the language of each document: (n,) int64, -1 for none."""
    for measure in measures:
        if measure.languages:
            known = pa.array([*measure.stop_words], pa.string())
            places = pc.index_in(batch.columns[measure.languages], known).fill_null(-1).to_numpy()
            return word_lists(tuple(measure.stop_words.values())), places.astype(np.int64)
    return ()


@lru_cache(maxsize=4)
def word_lists(lists: tuple[tuple[str, ...], ...]) -> "WordLists":
    from zyda_flows.textkernels.rules.quality import WordLists

    return WordLists(lists)
