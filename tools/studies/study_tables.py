"""Tables of studies as CSV, the same bytes on every machine."""
import csv


def read(path):
    """The lines as dictionaries."""
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(path, head, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)


def write_dicts(path, rows):
    """Dictionaries with the same keys."""
    write(path, rows[0], (row.values() for row in rows))
