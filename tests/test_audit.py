"""What the audit of packages says of pip-audit's answers."""

import json

import pytest

from tests.support.audit import verdict

FINE = {"name": "a", "version": "1.0", "vulns": []}
WEAK = {"name": "b", "version": "2.0", "vulns": [{"id": "PYSEC-1"}, {"id": "CVE-2"}]}
SKIPPED = {"name": "c", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "status", "text"),
    [
        ([FINE, SKIPPED], 0, "1 of 2 packages checked, none with a known vulnerability"),
        ([FINE, WEAK], 1, "known vulnerabilities: b 2.0: PYSEC-1, b 2.0: CVE-2; raise the versions in constraints.txt"),
        ([SKIPPED], 0, "not done, the package index here has no advisories"),
        (None, 0, "not done, the vulnerability service cannot be reached"),
    ],
)
def test_vulnerabilities_fail_and_a_missing_service_does_not(packages, status, text):
    assert verdict(json.dumps({"dependencies": packages, "fixes": []}) if packages else "") == (status, text)
