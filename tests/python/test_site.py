"""Is the site of all pages made without a warning, and does its search find what people type, from a folder?"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What is typed, and a page that has to be among the first five found.
WANTED = {"RHT": "sweeps/WORDS", "GPTQ": "sweeps/WORDS", "tied": "sweeps/WORDS", "NVFP4 checkpoint": "src/model/README",
          "swizzle": "sweeps/WORDS", "uninstall": "sweeps/WORDS", "macOS": "sweeps/WORDS", "float4_e2m1fn_x2": "sweeps/WORDS"}


def skip(why):
    print(f"[test skipped] {why}")
    sys.exit(0)


def main():
    chromium = shutil.which("chromium-headless-shell") or shutil.which("chromium") or shutil.which("chromium-browser")
    if shutil.which("sphinx-build") is None:
        skip("no sphinx-build")
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([ROOT / "tools/docs.sh", folder + "/site"], capture_output=True, text=True)
        assert made.returncode == 0, made.stdout + made.stderr
        assert "WARNING" not in made.stderr, made.stderr
        site = pathlib.Path(folder, "site")
        pages = {p.relative_to(site).as_posix() for p in site.rglob("*.html")}
        assert {"index.html", "sweeps/WORDS.html", "tools/examples/researcher.html"} <= pages, sorted(pages)
        assert "README.html" not in pages and "Which FP4 format suits my tensor?" in (site / "index.html").read_text()
        version = "fp4sim " + re.search(r"project\(fp4sim VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
        for page in pages:  # nothing is read from a network
            if not page.startswith("api/"):
                assert version in (site / page).read_text(), page
                loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', (site / page).read_text())
                assert not loaded, (page, loaded)
        if chromium is None:
            skip("no chromium; the site itself is right")
        for query, wanted in WANTED.items():
            shown = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom",
                                    f"{(site / 'search.html').as_uri()}?q={query.replace(' ', '+')}"],
                                   capture_output=True, text=True, timeout=120)
            listed = shown.stdout.partition('<ul class="search">')[2]
            found = re.findall(r'<li><a href="([^"?#]+)\.html', listed)
            assert wanted in found[:5], (query, found[:8], shown.stdout[-400:] if not found else "")
        for scheme, shade in {"0": "dark", "1": "light"}.items():  # Blink's preferred colour schemes
            shown = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--blink-settings=preferredColorScheme={scheme}",
                                    "--dump-dom", (site / "INSTALL.html").as_uri()], capture_output=True, text=True, timeout=120)
            assert f'<body data-theme="{shade}"' in shown.stdout, (shade, re.findall("<body[^>]*>", shown.stdout))
    print("the site is made and searched")


main()
