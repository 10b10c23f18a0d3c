"""`python -m gdelphi`, which `accelerate launch -m gdelphi train` uses."""

from gdelphi.app.cli import main

if __name__ == "__main__":
    main()
