"""The library of the package, _fp4sim.so, by ctypes: call("quantize", x=..., ...) for each of its rows (tools/python/gate.h).

The library knows nothing of Python, so one file serves every CPython. Python's lock is free while it computes. Arguments
and results are JSON; arrays go in by _arrays.operand() and come out as numpy arrays over the library's memory.
"""
import atexit
import ctypes
import json
import os
import pathlib
import queue
import threading

PERIOD = 0.1  # seconds between two calls of `poll`
FOLDER = pathlib.Path(__file__).resolve().parent


class Error(ValueError):
    """Wrong words or input, or work that failed: the message of the command line. `exit_code` is its exit code."""

    exit_code = 2

    def __reduce__(self):
        return type(self), self.args, self.__dict__


SAVED_WHOLE = Error("this model was saved whole by fp4sim 0.3.0 or older; accepted: its state_dict() and "
                    "fp4sim.torch.state(model), saved there and loaded into a model that convert() made here")


def __getattr__(name):
    raise SAVED_WHOLE if name == "Layers" else AttributeError(name)  # which models of 0.2.0 hold


try:
    _library = ctypes.CDLL(str(FOLDER / "_fp4sim.so"))
except OSError as problem:
    raise ImportError(f"fp4sim: the library cannot be loaded: {problem}") from None
_library.fp4py_call.restype = ctypes.c_void_p
_library.fp4py_call.argtypes = ctypes.c_char_p, ctypes.c_char_p
_library.fp4py_free.argtypes = (ctypes.c_void_p,)
linear = _library.fp4d_linear  # for run()
linear.restype = ctypes.c_void_p
linear.argtypes = ctypes.c_void_p, ctypes.c_void_p
_library.fp4py_drop.argtypes = (ctypes.c_void_p,)
_drop = _library.fp4py_drop
_library.fp4py_register.restype = ctypes.c_int
_library.fp4py_register.argtypes = ctypes.c_void_p, ctypes.c_void_p


class Handle:
    """An object of the library, or a share in its memory, until Python has no use for it."""

    __slots__ = ("address", "__array_interface__", "__weakref__")

    def __init__(self, address):
        self.address = address

    def __del__(self, drop=_drop):
        drop(self.address)


def _array(made):
    """The numpy array over memory of the library; it keeps the memory."""
    from ._numpy import np

    owner = Handle(made["owner"])
    kind = np.dtype(made["type"])
    if 0 in made["shape"]:
        return np.zeros(made["shape"], kind)
    owner.__array_interface__ = {"version": 3, "shape": tuple(made["shape"]), "typestr": kind.str,
                                 "data": (made["data"], not made["writable"])}
    return np.asarray(owner)


def _opened(made):
    """A dict of a result, with an array or a handle in place of what stands for one."""
    if made.keys() == {"handle"}:
        return Handle(made["handle"])
    return _array(made) if "owner" in made else made


def _read(text):
    """The result behind an address, which is freed."""
    try:
        return json.loads(ctypes.string_at(text), object_hook=_opened)
    finally:
        _library.fp4py_free(text)


class _Worker:
    """A thread for long calls of the main thread, which waits for it and can be interrupted meanwhile."""

    def __init__(self):
        self.jobs, self.left, self.afterwards = queue.SimpleQueue(), False, None
        threading.Thread(target=self.work, name="fp4sim", daemon=True).start()

    def work(self):
        while not self.left:
            job, keep, box, ready = self.jobs.get()
            box.append(job())
            ready.release()
            if self.left and box[0] is not None:
                _read(box[0])  # nobody will: what it holds is dropped
            if self.left and self.afterwards is not None:
                self.afterwards()
            del job, keep, box, ready

    def call(self, job, keep, poll, afterwards):
        box, ready = [], threading.Lock()
        ready.acquire()
        self.jobs.put((job, keep, box, ready))
        try:
            while not ready.acquire(timeout=-1 if poll is None else PERIOD):
                poll()
        except BaseException:
            self.afterwards, self.left = afterwards, True
            if afterwards is not None and ready.acquire(blocking=False):  # it had ended already
                afterwards()
            raise
        return box[0]


_idle = []  # workers without a job
os.register_at_fork(after_in_child=_idle.clear)


def _in_worker(job, keep, poll, afterwards=None):
    """The result of a call that Ctrl-C may leave alone: its thread ends it, and what it gives is dropped."""
    try:
        mine = _idle.pop()
    except IndexError:
        mine = _Worker()
    text = mine.call(job, keep, poll, afterwards)
    _idle.append(mine)
    return text


class _Callables:
    """What the library may call of Python (fp4sim/_elements.py). One call of the library at a time has them, so that what
    they raise reaches the call that asked; from then on they are not called any more, and it runs to its end at once."""

    def __init__(self):
        self.kept, self.problem, self.turn, self.ends = [], None, threading.Lock(), False
        os.register_at_fork(after_in_child=self.forked)
        atexit.register(self.leave)

    def forked(self):
        """A call of the parent does not run in the child."""
        self.problem, self.turn = None, threading.Lock()

    def leave(self):
        """At the end of the interpreter: a thread that then came for Python from inside a call would end the process by
        SIGABRT. Calls run to their end, without Python, and none begins."""
        self.ends = True
        self.turn.acquire()

    def register(self, round_, scale):
        """The number of two functions of ctypes, either None."""
        self.kept.append((round_, scale))
        return _library.fp4py_register(*(None if f is None else ctypes.cast(f, ctypes.c_void_p) for f in (round_, scale)))

    def guarded(self, work, instead):
        def run(*arguments):
            if self.ends or self.problem is not None:
                return instead
            try:
                return work(*arguments)
            except BaseException as problem:
                self.problem = problem
                return instead
        return run

    def end(self, first):
        """Gives the turn away, once a call: its thread and its caller may both come."""
        if first.acquire(blocking=False):
            self.problem = None
            self.turn.release()

    def call(self, job, keep, poll):
        self.turn.acquire()
        first = threading.Lock()
        try:
            if threading.current_thread() is threading.main_thread():
                text = _in_worker(job, keep, poll, afterwards=lambda: self.end(first))
            else:
                text = job()
        except BaseException as problem:  # the call still runs; its thread gives the turn away
            self.problem = problem
            raise
        problem = self.problem
        self.end(first)
        if problem is not None:
            if text is not None:
                _read(text)
            raise problem
        return text


callables = _Callables()


def json_of(value, name):
    """The JSON of a dict; Error for what JSON cannot hold."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as problem:
        raise Error(f"{name}: {problem}; accepted: words, finite numbers, lists and dicts of Python") from None


def call(name, /, *, long=False, keep=None, poll=None, asks=False, **arguments):
    """The result of a row of the library. Error for what it refuses.

    long   may take more than a moment: Ctrl-C ends the wait for it
    keep   what the addresses among the arguments need to live
    poll   called ten times a second meanwhile
    asks   Python's own rounding or scale stands behind a handle or in a file among the arguments
    """
    sent = json_of(arguments, name).encode()
    text = _text_of(lambda: _library.fp4py_call(name.encode(), sent), long, keep, poll, asks or b"calls" in sent)
    if text is None:
        raise MemoryError("fp4sim: out of memory")
    return _value(text)


def _text_of(job, long, keep, poll, asks):
    if asks and callables.kept:
        return callables.call(job, keep, poll)
    if poll is not None or (long and threading.current_thread() is threading.main_thread()):
        return _in_worker(job, keep, poll)
    return job()


def _value(text):
    made = _read(text)
    if "error" in made:
        error = Error(made["error"])
        error.exit_code = made["exit_code"]
        raise error
    return made["value"]


def run(job, *, long=False, keep=None, asks=False):
    """A job that gives None, or the address of an error; words as in call()."""
    text = _text_of(job, long, keep, None, asks)
    if text is not None:
        _value(text)


LONG = 1 << 17  # elements of a tensor, or multiplications over 64, above which a call is one to wait for


def arrays():
    """The reader of arrays; numpy is loaded with it, which commands alone do not need."""
    from . import _arrays

    return _arrays
