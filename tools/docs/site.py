"""Lays out the source folder of the site: every page of the project, its links made relative; README.md is the start page.

Usage: site.py SOURCE. A page belongs to the first kind of kinds.json one of whose patterns it matches. A link to a folder
leads to its README.md; a link to a file that is no page copies the file beside it. Exits with 1 where a link leads nowhere.
"""
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def pages():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        return sorted(p for p in listed.stdout.split() if not p.startswith("."))
    found = []
    for folder, names, files in os.walk(ROOT):
        names[:] = [n for n in names if not n.startswith((".", "build")) and n != "node_modules"]
        found += [os.path.relpath(os.path.join(folder, f), ROOT) for f in files if f.endswith(".md")]
    return sorted(found)


class Site:
    def __init__(self, source):
        self.source, self.pages, self.wrong = source, pages(), []

    def link(self, page, match):
        image, text, target, anchor = match.groups()
        path = target[1:] if target.startswith("/") else os.path.normpath(os.path.join(os.path.dirname(page), target))
        full = os.path.join(ROOT, path)
        if os.path.isdir(full):
            path += "/README.md"
        elif not os.path.exists(full):
            self.wrong.append(f"{page}: {target}")
        elif path not in self.pages and not path.endswith(".md"):
            self.copy(path)
        if path == "README.md":
            path = "index.md"
        elif path.endswith(".md") and path not in self.pages:  # a folder without a page, or one whose name begins with a dot
            name = path.removesuffix("/README.md")
            return text if name in text else f"{text} (`{name}`)"
        start = os.path.dirname(page) or "."
        return f"{image}[{text}]({os.path.relpath(path, start)}{anchor or ''})"

    def copy(self, path):
        to = os.path.join(self.source, path)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copyfile(os.path.join(ROOT, path), to)

    def write(self, path, text):
        to = os.path.join(self.source, path)
        os.makedirs(os.path.dirname(to) or ".", exist_ok=True)
        with open(to, "w") as f:
            f.write(text)

    def make(self, kinds):
        patterns = [(k, i, p) for k, kind in enumerate(kinds) for i, p in enumerate(kind["pages"])]
        of_kind = [[] for _ in kinds]
        for page in self.pages:
            with open(os.path.join(ROOT, page)) as f:
                blocks = re.split(r"(^```.*?^```$)", f.read(), flags=re.S | re.M)
            text = "".join(b if b.startswith("```") else LINK.sub(lambda m: self.link(page, m), b) for b in blocks)
            if page == "README.md":
                start = [text, "The headers of the <a href=\"api/index.html\">C++ and C interfaces</a>.", ""]
                continue
            self.write(page, text)
            kind, order = next((k, i) for k, i, p in patterns if fnmatch.fnmatch(page, p))
            of_kind[kind].append((order, page))
        for kind, listed in zip(kinds, of_kind):
            start += ["```{toctree}", ":hidden:", ":caption: " + kind["title"], ""] + [page[:-3] for _, page in sorted(listed)] + ["```", ""]
        self.write("index.md", "\n".join(start))
        for problem in self.wrong:
            print(f"site.py: {problem}: leads nowhere", file=sys.stderr)
        return not self.wrong


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: site.py SOURCE")
    with open(os.path.join(HERE, "kinds.json")) as f:
        kinds = json.load(f)["kinds"]
    if not Site(sys.argv[1]).make(kinds):
        sys.exit(1)
    with open(os.path.join(HERE, "conf.py")) as conf, open(os.path.join(ROOT, "CMakeLists.txt")) as lists:
        version = re.search(r"project\(fp4sim VERSION (\S+)", lists.read()).group(1)
        with open(os.path.join(sys.argv[1], "conf.py"), "w") as f:
            f.write(conf.read() + f'html_title = "fp4sim {version}"\n')
    shutil.copytree(os.path.join(HERE, "static"), os.path.join(sys.argv[1], "static"))
    os.makedirs(os.path.join(sys.argv[1], "extra"), exist_ok=True)


main()
