"""All measurements, small.

python -m benchmarks.all
"""

from benchmarks import classifier, clusters, end_to_end, signatures, tokens


def main() -> None:
    for module in (signatures, tokens, clusters, end_to_end, classifier):
        module.main()


if __name__ == "__main__":
    main()
