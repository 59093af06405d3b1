"""Builds the wheel, the package fp4sim and the command fp4sim, for pip and tools/wheel.sh (PEP 517, PEP 427).

CMake builds both in build-python/. With $FP4SIM_BUILD they are taken as they lie in that build folder, in a second.
"""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATE = (1980, 1, 1, 0, 0, 0)  # equal files give equal archives


def _version():
    return re.search(r"project\(fp4sim VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def _metadata():
    text = (ROOT / "pyproject.toml").read_text()
    field = lambda name: re.search(rf'^{name} = "(.*)"', text, re.M).group(1)  # noqa: E731
    return (f"Metadata-Version: 2.1\nName: fp4sim\nVersion: {_version()}\nSummary: {field('description')}\n"
            f"License: Apache-2.0\nRequires-Python: {field('requires-python')}\nRequires-Dist: numpy\n")


def _tag():
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    return f"{python}-{python}-{re.sub('[-.]', '_', sysconfig.get_platform())}"


def _extension():
    return f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"


def _built():
    """The folder that holds the program and python/fp4sim for this Python."""
    given = os.environ.get("FP4SIM_BUILD")
    folder = pathlib.Path(given).resolve() if given else ROOT / "build-python"
    if not given:
        # pip hides the numpy of the system from what it starts; CMake asks Python for it.
        hidden = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        run = lambda *words: subprocess.run(words, cwd=ROOT, check=True, env=hidden)  # noqa: E731
        run("cmake", "--preset", "release", "-B", folder, "-DFP4_TESTS=OFF", "-DFP4_PYTHON=ON",
            f"-DPython3_EXECUTABLE={sys.executable}")
        run("cmake", "--build", folder, "-j", str(os.cpu_count() or 1), "--target", "fp4sim", "fp4_python")
    for path in (folder / "fp4sim", folder / "python/fp4sim" / _extension()):
        if not path.exists():
            raise RuntimeError(f"FP4SIM_BUILD: no {path}; build the targets fp4sim and fp4_python there, with this Python")
    return folder


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel and returns its name."""
    folder = _built()
    stem = f"fp4sim-{_version()}"
    package = [p for p in sorted((folder / "python/fp4sim").iterdir()) if p.suffix in (".py", ".pyi", ".typed")]
    package.append(folder / "python/fp4sim" / _extension())
    files = {f"fp4sim/{p.name}": p.read_bytes() for p in package}
    files[f"{stem}.data/scripts/fp4sim"] = (folder / "fp4sim").read_bytes()
    info = f"{stem}.dist-info"
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: fp4sim\nRoot-Is-Purelib: false\n"
                              f"Tag: {_tag()}\n").encode()
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()  # noqa: E731
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    name = f"{stem}-{_tag()}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if "/scripts/" in path or path.endswith(".so") else 0o100644) << 16
            archive.writestr(entry, data, compresslevel=1)
    return name
