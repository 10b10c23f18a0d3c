"""Runs docs/first_steps.ipynb on the demo and keeps what it shows.

make demo
python docs/make_notebook.py
"""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).with_name("first_steps.ipynb")
FOLDER = Path.cwd()
"""with data/demo in it"""


def main() -> None:
    """Run all cells, in order."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    options = {"metadata": {"path": str(FOLDER)}}
    NotebookClient(notebook, timeout=1200, kernel_name="python3", resources=options).execute()
    for cell in notebook.cells:
        cell.metadata = {}  # times of this run
        if "outputs" in cell:  # warnings of libraries speak of this machine
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
    }
    nbformat.write(notebook, NOTEBOOK)
    print(f"wrote {NOTEBOOK}")  # noqa: T201


if __name__ == "__main__":
    main()
