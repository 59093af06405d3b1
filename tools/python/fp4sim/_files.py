"""Tensors of files, decoded: checkpoints of every scheme, and folders of `fp4sim quantize`."""
import collections.abc

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

    def __init__(self, handle, shapes, files):
        self._handle, self._files = handle, files
        self._shapes = {name: tuple(shape) for name, shape in shapes.items()}

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
        return load, (self._files,)


def load(path, *, changed: bool = False) -> "Tensors | Quantized":
    """What files hold, decoded: load("my_model_nvfp4")["0.weight"] is a float32 array.

    path     a folder of a model, a .safetensors, .gguf, .npz or .npy: Tensors, which decode a name when it is asked for;
             a folder that `fp4sim quantize x.npy` wrote: the Quantized tensor, whose values are np.asarray(it)
    changed  also reads a folder of `quantize` whose files are no longer those of its manifest
    """
    files = _path(path, "load")
    made = _core.call("load", path=files, changed=bool(changed), long=True)
    return Quantized(made["tensor"], made["shape"]) if "tensor" in made else Tensors(made["tensors"], made["shapes"], files)
