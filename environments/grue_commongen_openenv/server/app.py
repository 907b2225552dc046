"""GRUE's CommonGen as a server of OpenEnv; the data and the reward are grue's."""

import uvicorn

from grue.rewards import for_openenv

app = for_openenv("0.5*meteor + 0.5*coverage", task="commongen")


def main() -> None:
    """Serve on port 8000."""
    uvicorn.run(app, host="0.0.0.0", port=8000)


if __name__ == "__main__":
    main()
