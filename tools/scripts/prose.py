#!/usr/bin/env python3
"""Lists what is hard to read in the pages: sentences above 40 words and table cells above 120 characters.

    tools/scripts/prose.py [PAGE.md ...]        default: all pages of the tree
    tools/scripts/prose.py --count              pages by the number of findings alone

A report, not a gate: the exit code is 0. Code blocks, links' targets and tables of generated references are passed over.
"""
import argparse
import pathlib
import re
import subprocess

MOST_WORDS, MOST_LETTERS = 40, 120
ROOT = pathlib.Path(__file__).resolve().parents[2]


def plain(text):
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"[*_]{1,2}(\S.*?\S|\S)[*_]{1,2}", r"\1", text)


def paragraphs(lines):
    """(number of the first line, text) of everything that is prose: paragraphs, items, no code, no headings."""
    held, begin, in_code = [], 0, False
    for number, line in enumerate(lines + [""], 1):
        if line.startswith("```"):
            in_code = not in_code
        is_item = re.match(r"\s*([-*]|\d+\.) ", line)
        ends = in_code or not line.strip() or line.startswith(("```", "#", "|", "    ")) or is_item
        if ends and held:
            yield begin, " ".join(held)
            held = []
        if not ends or (is_item and not in_code):
            if not held:
                begin = number
            held.append(re.sub(r"^\s*([-*]|\d+\.) ", "", line).strip())


def sentences(text):
    """Cut behind a full stop, a colon or a question mark before a capital letter, a backtick or a digit."""
    return re.split(r"(?<=[.?!:;])\s+(?=[A-Z`\d\"(*])", plain(text))


def findings(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    for number, text in paragraphs(lines):
        for sentence in sentences(text):
            words = len(sentence.split())
            if words > MOST_WORDS:
                yield number, f"{words} words", sentence
    for number, line in enumerate(lines, 1):
        if not line.startswith("|"):
            continue
        for cell in re.split(r"(?<!\\)\|", line)[1:-1]:
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


if __name__ == "__main__":
    main()
