"""New environments of Python, made by uv, and what commands print in them."""

import os
import subprocess
from pathlib import Path

UV = os.path.abspath(os.environ.get("UV", "uv"))


def environment(folder, *requirements, name="env"):
    """A new environment in a folder of this name, with these requirements and what they need."""
    run(UV, "venv", "--quiet", "--python", "3.11", name, folder=folder)
    run(UV, "pip", "install", "--quiet", "--python", f"{name}/bin/python", *requirements, folder=folder)


def run(*command, folder, code=0):
    """A command that ended, as it must, with this code; it sees neither this checkout nor this environment."""
    plain = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SPARK", "VIRTUAL_ENV"))
    }
    if Path(command[0]).parent.name == "bin":
        plain["PATH"] = f"{Path(command[0]).parent}{os.pathsep}{plain['PATH']}"
    ran = subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == code, f"{ran.stdout}\n{ran.stderr}"
    return ran
