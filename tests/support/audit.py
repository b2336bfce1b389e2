"""Known vulnerabilities of the packages in constraints.txt; a tool of `make check`:

python -m tests.support.audit PIP_AUDIT CONSTRAINTS

If the advisory service cannot be reached, it says so in one line and succeeds: that is not a fault of the code.
"""

import json
import subprocess
import sys


def main(pip_audit: str, constraints: str) -> int:
    command = [pip_audit, "--requirement", constraints, "--no-deps", "--disable-pip", "--format=json", "--timeout=5"]
    done = subprocess.run([*command, "--progress-spinner=off"], capture_output=True, text=True, check=False)
    status, text = verdict(done.stdout)
    print(f"audit: {text}")
    return status


def verdict(output: str) -> tuple[int, str]:
    """(status, message) from pip-audit's JSON; output without JSON means that the service was not reached."""
    try:
        packages = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return 0, "not done, the vulnerability service cannot be reached"
    checked = [package for package in packages if "vulns" in package]
    if not checked:
        return 0, "not done, the package index here has no advisories"
    found = [f"{p['name']} {p['version']}: {v['id']}" for p in checked for v in p["vulns"]]
    if found:
        return 1, f"known vulnerabilities: {', '.join(found)}; raise the versions in constraints.txt"
    return 0, f"{len(checked)} of {len(packages)} packages checked, none with a known vulnerability"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
