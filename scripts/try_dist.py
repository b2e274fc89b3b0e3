"""Install the wheel and the sdist in `dist/` into clean environments and run the demo from each."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import tempfile
import venv

DIST = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "dist")


def try_archive(archive: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        program = os.path.join(folder, "bin", "hardwon")
        pip = [os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, archive], check=True)
        # A home and a folder of its own: the clone must not be found by accident.
        environment = {**os.environ, "HOME": folder, "HARDWON_HOME": os.path.join(folder, ".hardwon")}
        for command in ([program, "--version"], [program, "demo"]):
            subprocess.run(command, check=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL)
    print(f"works: {os.path.basename(archive)} ({os.path.getsize(archive) / 1e6:.1f} MB)")


def main() -> None:
    archives = sorted(
        glob.glob(os.path.join(DIST, "hardwon-*.whl")) + glob.glob(os.path.join(DIST, "hardwon-*.tar.gz"))
    )
    if len(archives) != 2:
        sys.exit(
            f"expected one wheel and one sdist in dist/, found {len(archives)} files; fix: rm -rf dist && make dist"
        )
    for archive in archives:
        try_archive(archive)


if __name__ == "__main__":
    main()
