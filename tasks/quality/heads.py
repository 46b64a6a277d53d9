"""The heads of a model: each returns a score, or the probabilities of labels."""

from zyda_flows.tasks.storage.records import Record


class ModelHead(Record):
    """A head of a model. Without labels, it returns a score.

    name: "" for the only head of a model. multi_label: whether each label has a probability of its own.
    """

    name: str = ""
    labels: tuple[str, ...] = ()
    multi_label: bool = False

    @property
    def outputs(self) -> int:
        return max(1, len(self.labels))

    def prefix(self, judge: str) -> str:
        """Return the beginning of the names of the columns of a judge with this head."""
        return f"{judge}_{self.name}" if self.name else judge
