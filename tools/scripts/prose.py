#!/usr/bin/env python3
"""Lists what is hard to read in the pages: sentences above 40 words and table cells above 120 characters.

    tools/scripts/prose.py [PAGE.md ...]        default: all pages of the tree but CHANGELOG.md
    tools/scripts/prose.py --count              pages by the number of findings alone

Exit code 1 where something was found. Not looked at: code blocks, targets of links, and tables of pages that the program
prints ("Made by `fp4sim .."): the cells are texts of its tables. A piece of code in a sentence is one word: it is read as one.
"""
import argparse
import pathlib
import re
import subprocess
import sys

MOST_WORDS, MOST_LETTERS = 40, 120
ROOT = pathlib.Path(__file__).resolve().parents[2]


def plain(text):
    """Without the targets of links and the stars of emphasis; _ is a letter of names such as scale_rule."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\*{1,2}(\S.*?\S|\S)\*{1,2}", r"\1", text)


def words(sentence):
    return len(re.sub(r"`[^`]*`", "`code`", sentence).split())


def is_row(line):
    """A row of a table, which may stand below an item of a list."""
    return line.lstrip().startswith("|")


def paragraphs(lines):
    """(number of the first line, text) of everything that is prose: paragraphs, items, no code, no headings."""
    held, begin, in_code = [], 0, False
    for number, line in enumerate(lines + [""], 1):
        if line.startswith("```"):
            in_code = not in_code
        is_item = re.match(r"\s*([-*]|\d+\.) ", line)
        ends = in_code or not line.strip() or is_row(line) or line.startswith(("```", "#", "    ")) or is_item
        if ends and held:
            yield begin, " ".join(held)
            held = []
        if not ends or (is_item and not in_code):
            if not held:
                begin = number
            held.append(re.sub(r"^\s*([-*]|\d+\.) ", "", line).strip())


def sentences(text):
    """Cut behind a full stop, also before a small letter (`e5m2 takes 33 bits`), and behind a colon or a semicolon
    before a capital letter, a backtick or a digit."""
    return re.split(r"(?<=[.?!])\s+|(?<=[.?!]\))\s+|(?<=[:;])\s+(?=[A-Z`\d\"(])", plain(text))


def findings(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, text in paragraphs(lines):
        for sentence in sentences(text):
            if words(sentence) > MOST_WORDS:
                yield number, f"{words(sentence)} words", sentence
    if any(line.startswith("Made by `fp4sim ") for line in lines[:5]):
        return
    for number, line in enumerate(lines, 1):
        if not is_row(line):
            continue
        for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]:
            letters = len(plain(cell.strip()))
            if letters > MOST_LETTERS:
                yield number, f"cell of {letters} characters", plain(cell.strip())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    parser.add_argument("--count", action="store_true", help="pages by the number of findings alone")
    given = parser.parse_args()
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    pages = given.pages or [ROOT / name for name in listed.split() if name != "CHANGELOG.md"]
    total, counts = 0, []
    for page in pages:
        if not page.is_file():
            parser.error(f"{page}: no such page")
        found = list(findings(page))
        total += len(found)
        name = page.resolve().relative_to(ROOT) if page.resolve().is_relative_to(ROOT) else page
        counts.append((len(found), name))
        if not given.count:
            for number, what, text in found:
                print(f"{name}:{number}: {what}: {text[:100]}{'...' if len(text) > 100 else ''}")
    if given.count:
        for count, name in sorted(counts, reverse=True):
            if count:
                print(f"{count:5} {name}")
    print(f"{total} findings in {len(pages)} pages")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
