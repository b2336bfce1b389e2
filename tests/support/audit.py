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
    status = 0
    try:
        packages = json.loads(done.stdout)["dependencies"]
        checked = [package for package in packages if "vulns" in package]
        found = [f"{p['name']} {p['version']}: {v['id']}" for p in checked for v in p["vulns"]]
        text = f"{len(checked)} of {len(packages)} packages checked, none with a known vulnerability"
        if found:
            status, text = 1, f"known vulnerabilities: {', '.join(found)}; raise the versions in constraints.txt"
        elif not checked:
            text = "not done, the package index here has no advisories"
    except (ValueError, KeyError, TypeError):
        text = "not done, the vulnerability service cannot be reached"
    print(f"audit: {text}")
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
