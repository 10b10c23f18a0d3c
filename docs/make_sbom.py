"""Writes the installed packages that gdelphi needs, with versions and licences, as CycloneDX.

    python docs/make_sbom.py build/sbom.json

Made from what is installed, following what each package says it needs: a list by hand would be
wrong by next week.
"""

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

ROOT = "gdelphi"


def package_key(name: str) -> str:
    """A package's name as all write it: in small letters, with dashes."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(name: str, found: dict[str, Distribution]) -> None:
    """Add a package and all that it needs, as far as they are installed."""
    key = package_key(name)
    if key in found:
        return
    try:
        found[key] = distribution(name)
    except PackageNotFoundError:
        return
    for requirement in found[key].requires or ():
        needed(re.split(r"[ ;\[<>=!~(]", requirement, maxsplit=1)[0], found)


def component(key: str, package: Distribution) -> dict[str, object]:
    """A package in CycloneDX's words."""
    licence = package.metadata.get("License-Expression") or package.metadata.get("License") or ""
    entry: dict[str, object] = {
        "type": "library",
        "name": key,
        "version": package.version,
        "purl": f"pkg:pypi/{key}@{package.version}",
    }
    if licence.strip():
        entry["licenses"] = [{"license": {"name": licence.strip().splitlines()[0][:80]}}]
    return entry


def sbom() -> dict[str, Any]:
    """The whole list."""
    found: dict[str, Distribution] = {}
    needed(ROOT, found)
    main = found.pop(ROOT)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "metadata": {"component": component(ROOT, main) | {"type": "application"}},
        "components": [component(key, found[key]) for key in sorted(found)],
    }


def write_sbom(content: dict[str, Any], path: Path) -> None:
    """Write the list, and say so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {path}\n")


def main() -> None:
    write_sbom(sbom(), Path(sys.argv[1] if len(sys.argv) > 1 else "build/sbom.json"))


if __name__ == "__main__":
    main()
