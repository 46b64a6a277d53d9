"""All measurements, small.

python -m benchmarks.all
"""

from benchmarks import clusters, signatures, tokens


def main() -> None:
    for module in (signatures, tokens, clusters):
        module.main()


if __name__ == "__main__":
    main()
