"""Writes what archives and scanners ask of a release: fp4sim-VERSION.spdx.json, its parts of others, and zenodo.json.

Usage: release_facts.py PROGRAM OUT. The parts are those that `PROGRAM version` names and the chart library of the report.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LICENCES = {"CLI11": "BSD-3-Clause", "Eigen": "MPL-2.0", "fmt": "MIT", "nlohmann_json": "MIT", "SQLite": "blessing", "zlib": "Zlib",
            "echarts": "Apache-2.0", "zrender": "BSD-3-Clause", "tslib": "0BSD"}
program, out = sys.argv[1], pathlib.Path(sys.argv[2])
told = json.loads(subprocess.run([program, "version", "--json"], check=True, capture_output=True, text=True).stdout)
date = subprocess.run(["git", "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"], cwd=ROOT, check=True,
                      capture_output=True, text=True, env={"TZ": "UTC"}).stdout.strip()
locked = json.loads((ROOT / "package-lock.json").read_text())["packages"]
parts = {"fp4sim": told["version"], **told["libraries"]}
parts.update({name: locked[f"node_modules/{name}"]["version"] for name in ("echarts", "zrender", "tslib")})
packages = [{"SPDXID": f"SPDXRef-{name.replace('_', '-')}", "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
             "licenseConcluded": LICENCES.get(name, "Apache-2.0"), "filesAnalyzed": False} for name, version in parts.items()]
of_fp4sim = [{"spdxElementId": "SPDXRef-fp4sim", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": p["SPDXID"]} for p in packages[1:]]
spdx = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"fp4sim-{told['version']}",
        "documentNamespace": f"urn:fp4sim:{told['version']}:{told['commit']}", "packages": packages,
        "creationInfo": {"created": date, "creators": ["Organization: the fp4sim maintainers"]},
        "relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-fp4sim"}, *of_fp4sim]}
citation = (ROOT / "CITATION.cff").read_text()
field = lambda name: re.search(rf'^{name}: "?(.*?)"?$', citation, re.M).group(1)  # noqa: E731
zenodo = {"title": field("title"), "version": told["version"], "license": field("license"), "upload_type": field("type"),
          "publication_date": date[:10], "creators": [{"name": name} for name in re.findall(r'- name: "(.*)"', citation)],
          "description": " ".join(re.search(r"^abstract: >-\n((?:  .*\n)+)", citation, re.M).group(1).split()),
          "keywords": re.findall(r"^  - ([^n\n].*)$", citation.partition("keywords:")[2], re.M)}
for name, content in ((f"fp4sim-{told['version']}.spdx.json", spdx), ("zenodo.json", zenodo)):
    (out / name).write_text(json.dumps(content, indent=1) + "\n")
