"""The best labels of a text from the mean of its rows: fastText's losses, with its tables and logarithms."""

import numpy as np

from zyda_flows.textkernels.compiled import njit
from zyda_flows.textkernels.fasttext.model import SOFTMAX

SIGMOID_STEPS, SIGMOID_MOST = 512, 8  # of fastText's table
SIGMOID = (
    1 / (1 + np.exp(-(np.arange(SIGMOID_STEPS + 1) * 2 * SIGMOID_MOST / SIGMOID_STEPS - SIGMOID_MOST)))
).astype(np.float32)
LEAST = 1e-5  # fastText adds it to a probability before the logarithm
ONE = np.float32(1)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dot(x, y):
    total = np.float32(0)
    for i in range(x.size):
        total += x[i] * y[i]
    return total


@njit(cache=True, nogil=True, inline="always")
def product(mean, output, i):
    """Return the product of a mean with row i of the output matrix: column i if rows are multiplied already."""
    return dot(mean, output[i]) if output.size else np.float32(mean[i])


@njit(cache=True, nogil=True, inline="always")
def logarithm(probability):
    """Return fastText's logarithm of a probability."""
    return np.float32(np.log(np.float64(probability) + LEAST))


@njit(cache=True, nogil=True)
def insert(label, score, count, best_labels, best_scores):
    """Insert a label into the best `count` labels, if it is among the best; return the new count."""
    if np.isnan(score) or (count == best_labels.size and not score > best_scores[count - 1]):
        return count
    place = min(count, best_labels.size - 1)
    while place > 0 and best_scores[place - 1] < score:
        best_labels[place], best_scores[place] = best_labels[place - 1], best_scores[place - 1]
        place -= 1
    best_labels[place], best_scores[place] = label, score
    return min(count + 1, best_labels.size)


@njit(cache=True, nogil=True)
def search_tree(mean, output, children, nodes, scores, best_labels, best_scores):
    """Find the best labels by hierarchical softmax: no node is more probable than its parent.

    Return their number. nodes, scores: scratch, one longer than the number of labels.
    """
    labels = scores.size - 1
    nodes[0], scores[0] = 2 * labels - 2, 0
    waiting, count = 1, 0
    while waiting:
        waiting -= 1
        node, score = nodes[waiting], scores[waiting]
        if score < logarithm(0) or (count == best_labels.size and score < best_scores[count - 1]):
            continue
        if node < labels:
            count = insert(node, score, count, best_labels, best_scores)
            continue
        inner = node - labels
        right = np.float32(1 / (1 + np.float64(np.exp(-product(mean, output, inner)))))
        nodes[waiting], scores[waiting] = children[inner, 1], score + logarithm(right)
        nodes[waiting + 1], scores[waiting + 1] = children[inner, 0], score + logarithm(ONE - right)
        waiting += 2
    return count


@njit(cache=True, nogil=True)
def sigmoid(x):
    """Return the sigmoid of x with the precision of fastText's table, and x itself if it is NaN."""
    if x < -SIGMOID_MOST:
        return np.float32(0)
    if x > SIGMOID_MOST:
        return ONE
    if np.isnan(x):
        return x
    steps = np.float32(SIGMOID_STEPS // (2 * SIGMOID_MOST))
    return SIGMOID[np.int64((x + np.float32(SIGMOID_MOST)) * steps)]


@njit(cache=True, nogil=True)
def score_all(mean, output, loss, scores, best_labels, best_scores):
    """Find the best labels by the other losses; return their number. scores: scratch, (labels,)."""
    count = 0
    for label in range(scores.size):
        scores[label] = product(mean, output, label)
    if loss == SOFTMAX:
        scores[:] = np.exp(scores - scores.max())
        scores /= scores.sum()
    else:
        for label in range(scores.size):
            scores[label] = sigmoid(scores[label])
    for label in range(scores.size):
        # The logarithm ascends with the probability, so few logarithms are computed.
        if count < best_labels.size or logarithm(scores[label]) > best_scores[count - 1]:
            count = insert(label, logarithm(scores[label]), count, best_labels, best_scores)
    return count
