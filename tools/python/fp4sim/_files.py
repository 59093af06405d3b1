"""Tensors of files, decoded: checkpoints of every scheme, and folders of `fp4sim quantize`."""
import collections.abc
import functools

from . import _core
from ._checks import count_of_threads, path as _path
from ._core import Error
from ._results import short
from ._tensors import Quantized


class NoTensor(Error, KeyError):
    """A name that the files do not have."""

    __str__ = Error.__base__.__str__


class Tensors(collections.abc.Mapping):
    """{name: array} of a model's files. An array is read and decoded when its name is asked for, and is not kept.

    FP4, FP8 and real tensors are float32, integers have their own type. `shapes` has the shape of each name.
    """

    def __init__(self, made, files, words):
        self._handle, self._files, self._words = made["tensors"], files, words
        self._shapes = {name: tuple(shape) for name, shape in zip(made["names"], made["shapes"])}

    @property
    def shapes(self) -> "dict[str, tuple[int, ...]]":
        """The shape of each tensor; nothing is decoded for it."""
        return dict(self._shapes)

    def read(self, name: str, *, threads: "int | None" = None) -> "np.ndarray":
        """One tensor, decoded in the order of operations of its scheme's owner."""
        found = name in self._shapes
        try:
            return _core.call("read_tensor", tensors=self._handle.address, name=str(name), keep=self,
                              threads=count_of_threads(threads), long=True)
        except Error as problem:
            raise problem if found else NoTensor(f"{self._files}: {problem}") from None

    def __getitem__(self, name: str) -> "np.ndarray":
        return self.read(name)

    def __contains__(self, name) -> bool:
        return name in self._shapes

    def __iter__(self) -> "Iterator[str]":
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)

    def __repr__(self):
        return short(f"<fp4sim.Tensors {self._files}: {len(self)} names, {', '.join(self)}>")

    def __reduce__(self):
        return functools.partial(load, **self._words), (self._files,)


def load(path, *, changed: bool = False, follow_links: bool = False) -> "Tensors | Quantized":
    """What files hold, decoded: load("my_model_nvfp4")["0.weight"] is a float32 array.

    path     a folder of a model, a .safetensors, .gguf, .npz or .npy: Tensors, which decode a name when it is asked for;
             a folder that `fp4sim quantize x.npy` wrote: the Quantized tensor, whose values are np.asarray(it)
    changed  also reads files that are no longer those of their manifest.json or fp4sim.json by their SHA-256
    follow_links   of a model's folder: also what links lead to outside of it
    """
    words = {"changed": bool(changed), "follow_links": bool(follow_links)}
    made = _core.call("load", path=_path(path, "load"), **words, long=True)
    return Quantized(made["tensor"], made["shape"]) if "tensor" in made else Tensors(made, _path(path, "load"), words)
