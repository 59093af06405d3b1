#!/usr/bin/env python3
"""Text out of unpacked Debian packages, for the task lm:  corpus.py FILES OUT

FILES holds one folder for each package of tools/corpus.sh. OUT/english and OUT/code get train.txt and validation.txt.
- A document is a file (HTML without its markup), or 64 KB of a dictionary.
- A paragraph that stood before in any document is left out (of code only where it has 40 characters or more, so that
  functions keep their ends). Documents below 200 bytes are left out.
- Every twentieth document validates: the split and the order follow SHA-256 of the document's name alone.
Output is bytes as in the files (nearly all UTF-8), documents end with two empty lines.
"""
import hashlib
import html.parser
import gzip
import pathlib
import re
import sys
import tarfile

VALIDATES = 20  # one document in so many
LEAST = 200     # bytes of a document
CHUNK = 65536   # bytes of a document of a dictionary
FOLDERS = ("block", "crypto", "fs", "init", "ipc", "kernel", "lib", "mm", "net", "security")  # of the Linux source
BREAKS = {"p", "div", "li", "tr", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "dt", "dd", "table", "section", "blockquote"}
HIDDEN = {"script", "style", "head", "nav", "footer"}


class Page(html.parser.HTMLParser):
    """Paragraphs of a page; <pre> keeps its lines, all else is one line a paragraph."""

    def __init__(self):
        super().__init__()
        self.paragraphs, self.words, self.hidden, self.pre = [], [], 0, 0

    def flush(self):
        text = "".join(self.words)
        self.words = []
        text = text.strip("\n") if self.pre else " ".join(text.split())
        if text.strip():
            self.paragraphs.append(text)

    def handle_starttag(self, tag, attrs):
        if tag in BREAKS:
            self.flush()
        self.hidden += tag in HIDDEN
        self.pre += tag == "pre"

    def handle_endtag(self, tag):
        if tag in BREAKS:
            self.flush()
        self.hidden -= tag in HIDDEN and self.hidden > 0
        self.pre -= tag == "pre" and self.pre > 0

    def handle_data(self, data):
        if not self.hidden:
            self.words.append(data)


def page(data):
    parser = Page()
    parser.feed(data.decode("utf-8", "replace"))
    parser.close()
    parser.flush()
    return "\n\n".join(parser.paragraphs).encode()


def files(root, package, folder, pattern, skip=()):
    """(name, bytes) of the package's files, by name."""
    base = root / package / folder
    if not base.is_dir():
        sys.exit(f"corpus: {base}: no such folder; the package {package} has another layout than Debian 12's")
    for path in sorted(base.rglob(pattern)):
        name = str(path.relative_to(root))
        if path.is_file() and not path.is_symlink() and not any(s in name for s in skip):
            yield name, path.read_bytes()


def cut(name, text):
    """A long text as documents of some CHUNK bytes, at ends of paragraphs."""
    at, number = 0, 0
    while at < len(text):
        end = text.find(b"\n\n", at + CHUNK)
        end = len(text) if end < 0 else end + 2
        yield f"{name}:{number}", text[at:end]
        at, number = end, number + 1


def glosses(data):
    """WordNet: the words of a synset and what they mean."""
    for line in data.splitlines():
        if not line.startswith(b"  ") and b" | " in line:
            fields, gloss = line.split(b" | ", 1)
            fields = fields.split(b" ")
            count = int(fields[3], 16)
            yield b", ".join(f.replace(b"_", b" ") for f in fields[4:4 + 2 * count:2]) + b": " + gloss.strip()


def english(root):
    dictionary = (root / "dict-gcide/usr/share/dictd/gcide.dict.dz").read_bytes()
    yield from cut("dict-gcide", gzip.decompress(dictionary))
    for part in ("noun", "verb", "adj", "adv"):
        data = (root / "wordnet-base/usr/share/wordnet" / f"data.{part}").read_bytes()
        yield from cut(f"wordnet-{part}", b"\n\n".join(glosses(data)))
    for package, folder in (("debian-handbook", "usr/share/doc/debian-handbook/html/en-US"),
                            ("linux-doc-6.1", "usr/share/doc/linux-doc-6.1/html"),
                            ("python3.11-doc", "usr/share/doc/python3.11/html"),
                            ("git-doc", "usr/share/doc/git-doc"),
                            ("postgresql-doc-15", "usr/share/doc/postgresql-doc-15/html"),
                            ("r-doc-html", "usr/share")):
        for name, data in files(root, package, folder, "*.html", ("genindex", "/_sources/")):
            yield name, page(data)
    yield from files(root, "perl-doc", "usr/share/perl", "*.pod")


def code(root):
    archive = root / "linux-source-6.1/usr/src/linux-source-6.1.tar.xz"
    with tarfile.open(archive, "r|xz") as source:
        for member in source:
            parts = member.name.split("/")
            if member.isfile() and len(parts) > 2 and parts[1] in FOLDERS and parts[-1][-2:] in (".c", ".h"):
                yield member.name, source.extractfile(member).read()


def write(out, documents, least_paragraph):
    seen, kept, dropped = set(), [], 0
    for name, data in documents:
        paragraphs = []
        for paragraph in re.split(rb"\n[ \t]*\n+", data):
            if not paragraph.strip():
                continue
            key = hashlib.sha256(b" ".join(paragraph.split()).lower()).digest()[:16]
            if len(paragraph) >= least_paragraph and key in seen:
                dropped += len(paragraph)
                continue
            seen.add(key)
            paragraphs.append(paragraph.strip(b"\n"))
        text = b"\n\n".join(paragraphs)
        if len(text) >= LEAST:
            kept.append((hashlib.sha256(name.encode()).digest(), text))
    out.mkdir(parents=True, exist_ok=True)
    kept.sort()
    for part, wanted in (("train", False), ("validation", True)):
        texts = [text for key, text in kept if (key[-1] % VALIDATES == 0) == wanted]
        content = b"".join(text + b"\n\n\n" for text in texts)
        (out / f"{part}.txt").write_bytes(content)
        print(f"{out.name + '/' + part + '.txt':22} {len(texts):6} documents {len(content):10} bytes  "
              f"{hashlib.sha256(content).hexdigest()}")
    print(f"{out.name}: {dropped} bytes of repeated paragraphs were left out")


root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
write(out / "english", english(root), 0)
write(out / "code", code(root), 40)
