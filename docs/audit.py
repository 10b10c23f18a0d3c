"""Asks what is known about the packages that gdelphi needs, as they are installed.

    python docs/audit.py build/sbom.json

Without the internet it says whether they are the versions that were tested together
(constraints.txt) and writes their list (`make_sbom.py`). With it, `pip-audit` asks for known
vulnerabilities. Left to itself that finds none where it reaches nobody: it passes over packages
that it cannot ask about. So they are counted. Fails if versions differ, a vulnerability is known,
or a package could not be asked about: silence is no good news.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from make_sbom import package_key, sbom, write_sbom

CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
PATIENCE = 600  # seconds for all answers


class Answer(NamedTuple):
    """What is known of the packages."""

    vulnerable: list[str]
    unasked: list[str]
    """names"""


def pinned(text: str) -> dict[str, str]:
    """Versions by package, from constraints.txt."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    pairs = (line.split("==") for line in lines if "==" in line)
    return {package_key(name): version for name, version in pairs}


def untested(installed: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Packages of another version than was tested; some (pip) have none."""
    return [
        f"{name} is {version}, constraints.txt has {wanted[name]}"
        for name, version in installed.items()
        if _public(wanted.get(name, version)) != _public(version)
    ]


def _public(version: str) -> str:
    return version.partition("+")[0]  # torch is 2.13.0+cpu


def ask(installed: Mapping[str, str]) -> Answer:
    """What pip-audit says, where it is installed."""
    nothing = Answer([], list(installed))
    if find_spec("pip_audit") is None:
        return nothing
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        lines = [f"{name}=={_public(version)}\n" for name, version in installed.items()]
        file.writelines(lines)
        file.flush()
        command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "-f", "json"]
        try:
            done = subprocess.run(  # noqa: S603 - the command is ours
                [*command, "-r", file.name], capture_output=True, timeout=PATIENCE, check=False
            )
            return read_answer(json.loads(done.stdout))
        except (subprocess.TimeoutExpired, json.JSONDecodeError):
            return nothing


def read_answer(answer: Mapping[str, Any]) -> Answer:
    """pip-audit's JSON."""
    packages = answer["dependencies"]
    return Answer(
        [
            f"{package['name']} {package['version']}: {known['id']}, "
            f"mended in {', '.join(known['fix_versions']) or 'no version'}"
            for package in packages
            for known in package.get("vulns", ())
        ],
        [package["name"] for package in packages if "skip_reason" in package],
    )


def main() -> None:
    content = sbom()
    write_sbom(content, Path(sys.argv[1] if len(sys.argv) > 1 else "build/sbom.json"))
    installed = {str(each["name"]): str(each["version"]) for each in content["components"]}
    differing = untested(installed, pinned(CONSTRAINTS.read_text(encoding="utf-8")))
    answer = ask(installed)
    for words, found in (
        ("are not of the version that was tested", differing),
        ("have known vulnerabilities", answer.vulnerable),
        ("could NOT be asked about (no pip-audit, or no internet)", answer.unasked),
    ):
        shown = "".join(f"\n  {line}" for line in found[:20]) + "\n  ..." * (len(found) > 20)
        sys.stdout.write(f"{len(found)} of {len(installed)} packages {words}{shown}\n")
    sys.exit(1 if differing or answer.vulnerable or answer.unasked else 0)


if __name__ == "__main__":
    main()
