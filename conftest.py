"""Doctests of modules that need an extra which is not installed are left out, and the head of the report says so."""

from importlib.util import find_spec

MODULES_BY_EXTRA = {
    "torch": [
        "src/condcs/nn",
        "src/condcs/adapters/_skada.py",
        "src/condcs/adapters/_skorch.py",
        "reproduction/src/condcs_reproduction/adaptation",
        "reproduction/src/condcs_reproduction/perceptron.py",
    ]
}
ABSENT = [package for package in MODULES_BY_EXTRA if find_spec(package) is None]

collect_ignore = [module for package in ABSENT for module in MODULES_BY_EXTRA[package]]


def pytest_report_header() -> list[str]:
    """Name what is left out."""
    return [f"{package} is not installed: no doctests of {', '.join(MODULES_BY_EXTRA[package])}" for package in ABSENT]
