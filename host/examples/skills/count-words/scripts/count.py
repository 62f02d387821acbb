"""Counts words of files, and writes counts.csv into the current folder."""

import sys


def words(path):
    with open(path, encoding="utf-8") as file:
        return sum(any(c.isalnum() for c in word) for word in file.read().split())


counts = [(path, words(path)) for path in sys.argv[1:]]
with open("counts.csv", "w", encoding="utf-8") as table:
    table.writelines(f"{path},{n}\n" for path, n in counts)
for path, n in counts:
    print(f"{path}: {n}")
