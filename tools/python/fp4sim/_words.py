"""Words of the axis tables as Python sees them: one enum for each axis, and typed specs.

Everything here is made from the tables of the core, so a new row of a table appears without an edit.
"""
import enum
import warnings

from . import _core


class Word(str, enum.Enum):
    """A word of an axis: equal to its text, with the line that `fp4sim list` shows of it."""

    def __new__(cls, word, doc="", source=""):
        self = str.__new__(cls, word)
        self._value_ = word
        self.__doc__ = doc
        self.source = source
        return self

    def __str__(self):
        return self.value


def _class_name(topic):
    words = topic.replace("_", "-").split("-")
    last = words[-1]
    words[-1] = last if last.endswith("ss") or last == "hardware" else last[:-1] if last.endswith("s") else last
    return "".join(word.capitalize() for word in words)


def make_enums():
    """{class name: enum}: `ScaleRule.rceil`, `Rounding.stochastic`, `Accumulator.k64_rz`, `Recipe.nvfp4_te`, ..."""
    rows = {}
    for topic, name, doc, source in _core.call("catalogue"):
        if "=" in name:  # several small axes in one topic
            topic, name = name.split("=", 1)
        if name.isidentifier():
            rows.setdefault(_class_name(topic), []).append((name, doc, source))
    enums = {}
    for name, members in rows.items():
        made = Word(name, [(word, (word, doc, source)) for word, doc, source in members], module="fp4sim")
        made.__doc__ = "\n".join(f"{word}: {doc}" for word, doc, _ in members)
        enums[name] = made
    return enums


def text_of(value):
    """A value as the command line writes it."""
    if isinstance(value, dict):
        return _core.json_of(value, "--spec")
    if isinstance(value, Spec):
        return value.words
    if isinstance(value, (list, tuple)):
        return "x".join(map(text_of, value))
    if isinstance(value, bool):
        return repr(value).lower()
    return str(value)


class Spec:
    """How one operand is quantised: `Spec("nvfp4", rounding="stochastic")`, `Spec(element="e2m1", block=16)`.

    The first argument is what --spec of the command line takes; fields stand on top of it, and on top of mxfp4 without
    one. Each field is an attribute. Raises Error for unknown words and for combinations that mean nothing.
    """

    __slots__ = ("_fields",)

    def __init__(self, spec="", **fields):
        object.__setattr__(self, "_fields", _core.call("spec", words=words_of(spec or (None if fields else "mxfp4"), fields)))

    @classmethod
    def _of(cls, fields):
        """The spec of fields that the library gave."""
        self = object.__new__(cls)
        object.__setattr__(self, "_fields", fields)
        return self

    def __setattr__(self, name, value):
        raise AttributeError(f"a Spec does not change: Spec(old, {name}=...) makes another one")

    @property
    def words(self) -> str:
        """The words of the command line for it: what differs from mxfp4."""
        defaults = {name: default for name, _, default, _ in _core.call("spec_fields")}
        return ",".join(f"{k}={text_of(v)}" for k, v in self._fields.items() if v != defaults[k]) or "mxfp4"

    def to_dict(self) -> dict:
        """All fields, as JSON files have them."""
        return dict(self._fields)

    def __repr__(self):
        return f"Spec({self.words!r})"

    def __eq__(self, other):
        return isinstance(other, Spec) and self._fields == other._fields

    def __hash__(self):
        return hash(self.words)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return Spec, (self.words,)


def _add_fields():
    for name, doc, _, accepted in _core.call("spec_fields"):
        if accepted:
            doc += ": " + ", ".join(accepted)
        setattr(Spec, name, property(lambda self, name=name: self._fields[name], doc=doc))


_add_fields()


def words_of(spec, fields):
    """The --spec of a spec given as words, as a Spec or by fields; "" for None without fields."""
    if spec is not None and not isinstance(spec, (str, Spec)):
        raise _core.Error(f"--spec: {type(spec).__name__} is no spec; accepted: words, Spec")
    first = [] if spec is None else [spec.words if isinstance(spec, Spec) else str(spec)]
    words = ",".join(first + [f"{name}={text_of(value)}" for name, value in fields.items()])
    if words and (fields or not isinstance(spec, Spec)):
        note = _core.call("spec_note", words=words)
        if note:
            warnings.warn(note, stacklevel=3)
    return words
