"""The program fp4sim as the package runs it: words in, JSON out, its messages in logging, Ctrl-C passed on."""
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading

from ._checks import recipe_of
from ._core import FOLDER, Error
from ._words import text_of

PATIENCE = 0.4  # seconds that a command has after Ctrl-C to keep what it has
log = logging.getLogger("fp4sim")


def program() -> str:
    """The path of the package's own program."""
    return str(FOLDER / "bin/fp4sim")


def words_of_options(options):
    """{"time_budget": 72, "set": {"lr": 1}} -> ["--time-budget=72", "--set=lr=1"]; True is a flag, None and False nothing,
    a list is repeated."""
    words = []
    for name, value in options.items():
        option = "--" + name.strip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, dict):
            words += [f"{option}={key}={text_of(entry)}" for key, entry in value.items()]
        elif isinstance(value, (list, tuple)):
            words += [f"{option}={text_of(entry)}" for entry in value]
        else:
            words.append(f"{option}={os.fspath(value) if isinstance(value, os.PathLike) else text_of(value)}")
    return words


@contextlib.contextmanager
def recipes(given):
    """{word of the command line: name} of recipes: names, paths, and dicts as .json files of a folder that lives as long."""
    with tempfile.TemporaryDirectory() as folder:
        names = {}
        for one in given if isinstance(given, (list, tuple)) else [given]:
            word = recipe_of(one)
            if isinstance(one, dict):
                text, word = word, os.path.join(folder, f"{len(names)}.json")
                with open(word, "w") as file:
                    file.write(text)
            names[word] = str(one.get("name", "")) if isinstance(one, dict) else word
        yield names


class _Messages:
    """What a command says on stderr: whole lines into the log, the last ones kept for its Error, all to `screen`."""

    def __init__(self, descriptor, screen):
        self.descriptor, self.screen, self.kept = descriptor, screen, b""
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        line = b""
        while True:
            try:
                data = os.read(self.descriptor, 65536)
            except OSError:  # a terminal whose other end is closed
                data = b""
            if not data:
                break
            self.kept = (self.kept + data)[-65536:]
            if self.screen is not None:
                self.screen.write(data.decode(errors="replace"))
                self.screen.flush()
                continue
            *whole, line = (line + data).split(b"\n")
            for text in whole:
                log.info("%s", text.decode(errors="replace").rsplit("\r", 1)[-1])
        os.close(self.descriptor)

    def text(self):
        self.thread.join(1)
        return self.kept.decode(errors="replace").replace("\r\n", "\n")


def _screen(progress):
    """Where a progress bar can be drawn: a terminal or a notebook."""
    if progress and (sys.stderr.isatty() if hasattr(sys.stderr, "isatty") else False or "ipykernel" in sys.modules):
        return sys.stderr
    return None


def run(words, *, progress=False, accepted=(0,)):
    """What a command prints on stdout. Error with the command's message and exit code where that is not accepted."""
    words = [program(), *(os.fspath(w) if isinstance(w, os.PathLike) else str(w) for w in words)]
    screen = _screen(progress)
    if screen is None:
        ours, theirs = os.pipe()
    else:
        import pty

        ours, theirs = pty.openpty()
    try:
        # A group of its own: Ctrl-C of the terminal reaches it once, through here.
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
                                 start_new_session=True)
    finally:
        os.close(theirs)
    messages = _Messages(ours, screen)
    try:
        out = child.communicate()[0]
    except BaseException:
        _end(child)
        raise
    if child.returncode == 0 or (child.returncode in accepted and out):  # an error prints no result
        return out.decode()
    raise _error(child.returncode, messages.text())


def _end(child):
    for what in (signal.SIGINT, signal.SIGKILL):
        child.send_signal(what)
        try:
            child.wait(PATIENCE)
            break
        except subprocess.TimeoutExpired:
            continue
    child.stdout.close()


def _error(code, said):
    lines = [line for line in said.splitlines() if line.strip()]
    start = max((n for n, line in enumerate(lines) if line.startswith("fp4sim: ") and not line.startswith("fp4sim: note")),
                default=max(len(lines) - 1, 0))
    error = Error("\n".join(lines[start:]).removeprefix("fp4sim: "))
    error.exit_code = code if code > 0 else 128 - code
    return error


def read(words, names=None, **keywords):
    """The JSON that a command prints, with names in place of the words that stand for them."""
    text = run(words, **keywords)
    for word, name in (names or {}).items():
        text = text.replace(json.dumps(word), json.dumps(name))
    return json.loads(text)

