"""Builds the wheel, the package fp4sim and the command fp4sim, for pip and tools/wheel.sh (PEP 517, PEP 427, PEP 600).

The library of the package knows nothing of Python, so one wheel serves every CPython: its tag is py3-none. CMake builds in
build-python/; with $FP4SIM_BUILD things are taken as they lie in that build folder, in a second. Libraries that manylinux
does not promise lie in the wheel beside those that need them.
"""
import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import sys
import sysconfig
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATE = (1980, 1, 1, 0, 0, 0)  # equal files give equal archives
# With code for Hopper and Blackwell, where the driver alone is needed, or for what the HIP compiler knows, with the ROCm that torch has loaded.
TARGETS = {"cuda": ["-DFP4_GPU_ARCHITECTURES=sm_90;sm_100a"], "hip": []}
GPU = next((gpu for gpu in TARGETS if os.environ.get(f"FP4SIM_{gpu.upper()}")), "")
BINARIES = "_fp4sim.so", "bin/fp4sim"  # the second runs by the code of the first
# PEP 600 and auditwheel's policies: what every manylinux system has.
PROMISED = re.compile(r"(libc|libm|libdl|librt|libpthread|libutil|libresolv|libgcc_s|libstdc\+\+|libz|libamdhip64|ld-linux.*)\.so\.\d+")
SCRIPT = """#!python
import importlib.util, os, sys
folder = importlib.util.find_spec("fp4sim").submodule_search_locations[0]
os.execv(os.path.join(folder, "bin", "fp4sim"), ["fp4sim", *sys.argv[1:]])
"""


def _version():
    return re.search(r"project\(fp4sim VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)


def _metadata():
    text = (ROOT / "pyproject.toml").read_text()
    field = lambda name: re.search(rf'^{name} = "(.*)"', text, re.M).group(1)  # noqa: E731
    extra = re.search(r'^numpy = \["(.*)"\]', text, re.M).group(1)
    return (f"Metadata-Version: 2.1\nName: fp4sim\nVersion: {_version()}\nSummary: {field('description')}\n"
            f"License: Apache-2.0\nRequires-Python: {field('requires-python')}\nProvides-Extra: numpy\n"
            f"Requires-Dist: {extra}; extra == 'numpy'\n")


def _printed(*words):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True).stdout


def needed(path):
    """Libraries that a binary names, and neither manylinux promises nor the package is."""
    names = re.findall(r"\(NEEDED\)\s+Shared library: \[(.*)\]", _printed("readelf", "-d", path))
    return [name for name in names if name != BINARIES[0] and not PROMISED.fullmatch(name)]


def _grafted(binaries):
    """{name: path} of the libraries that have to travel with them."""
    found, queue = {}, list(binaries)
    while queue:
        path = queue.pop()
        places = dict(re.findall(r"(\S+) => (\S+) \(0x", _printed("ldd", path)))
        for name in needed(path):
            if name not in found:
                found[name] = pathlib.Path(places[name])
                queue.append(found[name])
    return found


def _notices(libraries):
    """The licences of libraries that travel along, {name: path}, as the system's packages say them (Debian's do)."""
    text = ""
    for name, path in sorted(libraries.items()):
        # dpkg knows a file by the path under which it was installed, which may be that before /lib became /usr/lib.
        real = os.path.realpath(path)
        owner = next((owned for place in (real, real.removeprefix("/usr")) if (owned := _owner(place))), None)
        told = pathlib.Path(f"/usr/share/doc/{owner}/copyright") if owner else None
        if told is None or not told.exists():
            print(f"backend.py: no licence of {path} is found here: add it before you pass the wheel on", file=sys.stderr)
            continue
        text += f"\n======== lib/{name} ({owner}/copyright) ========\n\n{told.read_text('utf-8', 'replace')}"
    return text


def _owner(path):
    """The Debian package that installed a file; None where no dpkg knows it."""
    try:
        found = subprocess.run(["dpkg-query", "--search", path], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return found.stdout.split(":")[0] if found.returncode == 0 else None


def glibc(paths):
    """The newest version of glibc that binaries ask for, (2, 36)."""
    asked = re.findall(r"GLIBC_(\d+)\.(\d+)", "".join(_printed("objdump", "-T", path) for path in paths))
    return max((int(major), int(minor)) for major, minor in asked)


def _tag(paths):
    if sys.platform != "linux":
        return "py3-none-" + re.sub("[-.]", "_", sysconfig.get_platform())
    return "py3-none-manylinux_{}_{}_{}".format(*glibc(paths), platform.machine())


def _built():
    """The package of a build."""
    given = os.environ.get("FP4SIM_BUILD")
    folder = pathlib.Path(given).resolve() if given else ROOT / f"build-python{GPU and '-' + GPU}"
    if not given:
        run = lambda *words: subprocess.run(words, cwd=ROOT, check=True)  # noqa: E731
        run("cmake", "--preset", "release", "-B", folder, "-DFP4_TESTS=OFF", f"-DPython3_EXECUTABLE={sys.executable}",
            *([f"-DFP4_GPU={GPU}", *TARGETS[GPU]] if GPU else []))
        run("cmake", "--build", folder, "-j", str(os.cpu_count() or 1), "--target", "fp4_python")
    for name in BINARIES:
        if not (folder / "python/fp4sim" / name).exists():
            raise RuntimeError(f"FP4SIM_BUILD: no {folder}/python/fp4sim/{name}; build the target fp4_python there")
    return folder / "python/fp4sim"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel and returns its name."""
    package = _built()
    binaries = [package / name for name in BINARIES]
    grafted = _grafted(binaries)
    tag = _tag([*binaries, *grafted.values()])
    files = {f"fp4sim/{p.name}": p.read_bytes() for p in sorted(package.iterdir()) if p.suffix in (".py", ".pyi", ".typed")
             or p.name == "py.typed"}
    files.update({f"fp4sim/{name}": (package / name).read_bytes() for name in BINARIES})
    files.update({f"fp4sim/lib/{name}": path.read_bytes() for name, path in sorted(grafted.items())})
    stem = f"fp4sim-{_version()}"
    files[f"{stem}.data/scripts/fp4sim"] = SCRIPT.encode()
    info = f"{stem}.dist-info"
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    notices = package.parents[1] / "sweeps/notices/THIRD_PARTY_NOTICES.txt"
    files[f"{info}/{notices.name}"] = notices.read_bytes() + _notices(grafted).encode()
    files[f"{info}/METADATA"] = _metadata().encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: fp4sim\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    digest = lambda data: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()  # noqa: E731
    record = "".join(f"{name},sha256={digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    name = f"{stem}{GPU and '-1' + GPU}-{tag}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            runs = "/scripts/" in path or "/bin/" in path or ".so" in path
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            archive.writestr(entry, data, compresslevel=6)
    return name
