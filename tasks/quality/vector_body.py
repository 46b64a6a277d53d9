"""The part of a judge's model that computes the vectors of documents, without the head."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
from numpy.typing import NDArray

from zyda_flows.tasks.storage.records import Record


class VectorFunctions(NamedTuple):
    """A loaded model. vectors: returns the vectors of texts, (n, dims). answers: the columns of their answers."""

    vectors: Callable[[pa.ChunkedArray], NDArray[Any]]
    answers: Callable[[NDArray[Any]], list[pa.Array]]


class VectorBody(Record):
    """The body of a model. digest: of all on which its vectors depend. dims: of a vector.

    kind: the type of the numbers of a vector, `int32` or `float32`. unit: of these numbers.
    """

    digest: str
    dims: int
    kind: str
    unit: float
