"""`python -m grue`, and `accelerate launch -m grue`."""

from grue.cli.main import main

if __name__ == "__main__":
    main(prog_name="grue")
